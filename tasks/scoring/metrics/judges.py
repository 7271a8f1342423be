"""Statistics of judges: agreement with human labels, and ratings from pairwise preferences.

Ratings are Bradley-Terry's by maximum likelihood, of games ``(a, b, points of a)``, points 0 to 1:
400 points of rating are odds of 10 to 1; the mean over players is `CENTRE`. Sources: Bradley and
Terry, "Rank analysis of incomplete block designs", Biometrika 39 (1952) 324; when a maximum exists:
Hunter, "MM algorithms for generalized Bradley-Terry models", Annals of Statistics 32 (2004) 384.
"""

import math
import random
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from tutti.tasks.scoring.statistics.means import Interval, wilson


class Agreement(NamedTuple):
    """Agreement of a judge with labels."""

    n: int
    agreement: float  # share of pairs that agree
    agreement_interval: Interval  # Wilson interval at 95 %
    kappa: float | None  # Cohen's; None if the agreement by chance is 1
    kappa_interval: Interval | None
    """At 95 %: from the interval of the agreement, with chance as observed. So it has a width even
    if all pairs agree; the usual standard error is 0 there, and too small for few pairs."""
    precision: float | None  # share of the judge's "right" verdicts that are right by label
    recall: float | None  # share of answers right by label that the judge calls right


def agreement(pairs: Sequence[tuple[bool, bool]]) -> Agreement:
    """Agreement of judge and labels. ValueError for no pairs. Source: Cohen, "A coefficient of
    agreement for nominal scales", 1960."""
    n = len(pairs)
    if n == 0:
        raise ValueError("no pairs")
    both = sum(judge and label for judge, label in pairs)
    by_judge, by_label = (sum(pair[side] for pair in pairs) for side in (0, 1))
    alike = sum(judge == label for judge, label in pairs) / n
    chance = (by_judge * by_label + (n - by_judge) * (n - by_label)) / n**2
    interval = wilson(round(alike * n), n)
    assert interval is not None, "there are pairs"

    def kappa(share: float) -> float:
        return (share - chance) / (1 - chance)

    return Agreement(
        n,
        alike,
        interval,
        kappa(alike) if chance < 1 else None,
        (kappa(interval[0]), kappa(interval[1])) if chance < 1 else None,
        both / by_judge if by_judge else None,
        both / by_label if by_label else None,
    )


Game = tuple[str, str, float]

CENTRE = 1000.0
SCALE = 400 / math.log(10)
DRAWS = 1000
CONFIDENCE = 0.95
# share of resamples without a maximum above which an interval would be too narrow
MAX_LEFT_OUT = 0.05
_TOLERANCE = 1e-9  # in log strength: far below a hundredth of a rating point
_MAX_STEPS = 1_000


class NotComparable(ValueError):
    """There is no maximum: some players never scored against the others, or never met them."""


class Rating(NamedTuple):
    """The rating of one player."""

    elo: float
    low: float | None
    """Ends of the interval at `CONFIDENCE`; None if too many resamples had no maximum."""
    high: float | None
    games: int


def ratings(
    games: Sequence[Game],
    clusters: Sequence[Hashable] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Rating]:
    """Ratings with percentile intervals, best first.

    `clusters`: one label per game (its task); whole clusters are resampled, or single games.
    Resamples without a maximum are left out; if they are more than `MAX_LEFT_OUT`, there are no
    intervals. Raises NotComparable, and ValueError for points outside 0 to 1 or a player against
    itself.
    """
    elos = fit(games)
    labels = range(len(games)) if clusters is None else clusters
    members: dict[Hashable, list[Game]] = {}
    for label, game in zip(labels, games, strict=True):
        members.setdefault(label, []).append(game)
    blocks, generator = list(members.values()), random.Random(seed)
    drawn: list[dict[str, float]] = []
    for _ in range(draws):
        sample = [game for block in generator.choices(blocks, k=len(blocks)) for game in block]
        try:
            found = fit(sample)
        except NotComparable:
            continue
        if found.keys() == elos.keys():
            drawn.append(found)
    trusted = draws > 0 and len(drawn) >= (1 - MAX_LEFT_OUT) * draws
    rated: dict[str, Rating] = {}
    for player in sorted(elos, key=lambda player: -elos[player]):
        low = high = None
        if trusted:
            values, tail = sorted(found[player] for found in drawn), (1 - CONFIDENCE) / 2
            last = len(values) - 1
            low, high = values[math.floor(tail * last)], values[math.ceil((1 - tail) * last)]
        rated[player] = Rating(elos[player], low, high, sum(player in game[:2] for game in games))
    return rated


def fit(games: Sequence[Game]) -> dict[str, float]:
    """The maximum-likelihood ratings. Raises NotComparable and ValueError."""
    from scipy.sparse.csgraph import (  # type: ignore[import-untyped, unused-ignore]
        connected_components,
    )

    players = sorted({player for game in games for player in game[:2]})
    place = {player: n for n, player in enumerate(players)}
    took = np.zeros((len(players), len(players)))  # took[i, j]: the points of i against j
    for a, b, of_a in games:
        if a == b or not 0 <= of_a <= 1:
            raise ValueError(f"not a game: {(a, b, of_a)}")
        took[place[a], place[b]] += of_a
        took[place[b], place[a]] += 1 - of_a
    if not games:
        raise NotComparable("no games")
    # A maximum exists if the graph of scored points is strongly connected.
    groups, group = connected_components(took, connection="strong")
    if groups > 1:
        reached = [player for player, n in zip(players, group, strict=True) if n == group[0]]
        raise NotComparable(f"no points between {reached} and the others, one way")
    met, logs = took + took.T, np.zeros(len(players))
    for _ in range(_MAX_STEPS):
        chance = 1 / (1 + np.exp(logs[None, :] - logs[:, None]))
        weight = met * chance * (1 - chance)
        gradient = (took - met * chance).sum(axis=1)
        # Newton's step among log strengths of mean 0, of at most 1.
        step = np.linalg.solve(np.diag(weight.sum(axis=1)) - weight + 1 / len(players), gradient)
        logs += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < _TOLERANCE:
            return {player: CENTRE + SCALE * float(logs[n]) for player, n in place.items()}
    raise NotComparable(f"no maximum found in {_MAX_STEPS} steps: nearly separated")
