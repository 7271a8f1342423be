"""Statistics of judges: agreement with human labels, and ratings from pairwise preferences.

Agreement takes pairs (judge says right, label says right) of the same answers, and gives counts and
shares; a share of none is None. Votes without a verdict are not included; count them separately, as
scorer_error.

Ratings are Bradley-Terry's by maximum likelihood, with bootstrap intervals, of games ``(a, b,
points of a)``, points 1, 0, or between for ties and mixed rounds: a rating per player on the Elo
scale: 400 points are odds of 10 to 1; the mean over players is `CENTRE`. Sources: Bradley and
Terry, "Rank analysis of incomplete block designs", Biometrika 39 (1952) 324; the iteration and when
a maximum exists: Hunter, "MM algorithms for generalized Bradley-Terry models", Annals of Statistics
32 (2004) 384; a tie counts as half a win for both.
"""

import math
import random
from collections.abc import Hashable, Sequence
from statistics import fmean
from typing import NamedTuple

from tutti.tasks.scoring.statistics.means import Interval, wilson


class Agreement(NamedTuple):
    """Agreement of a judge with labels."""

    n: int
    agreement: float
    """Share of pairs that agree."""
    agreement_interval: Interval
    """Wilson interval at 95 %."""
    kappa: float | None
    """Cohen's kappa: (agreement - by chance) / (1 - by chance); None if the agreement by chance is
    1."""
    kappa_interval: Interval | None
    """At 95 %: from the interval of the agreement, with chance as observed. So it has a width even
    if all pairs agree; the usual standard error is 0 there, and too small for few pairs."""
    precision: float | None
    """Share of the judge's "right" verdicts that are right by label."""
    recall: float | None
    """Share of answers right by label that the judge calls right."""


def agreement(pairs: Sequence[tuple[bool, bool]]) -> Agreement:
    """Agreement of judge and labels. ValueError for no pairs.

    Source: Cohen, "A coefficient of agreement for nominal scales", 1960.
    """
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
_MAX_ITERATIONS = 100_000


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

    `clusters`: one label per game (its task). Whole clusters are resampled, because games on one
    task are correlated; without labels, single games are resampled. Resamples without a maximum are
    left out; if they are more than `MAX_LEFT_OUT`, there are no intervals. Raises NotComparable,
    and ValueError for points outside 0 to 1 or a player against itself.
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
    ordered = sorted(elos, key=lambda player: -elos[player])
    return {
        player: Rating(
            elos[player],
            *_ends([found[player] for found in drawn] if trusted else []),
            games=sum(player in game[:2] for game in games),
        )
        for player in ordered
    }


def fit(games: Sequence[Game]) -> dict[str, float]:
    """The maximum-likelihood ratings. Raises NotComparable and ValueError."""
    points: dict[str, float] = {}
    met: dict[str, dict[str, float]] = {}
    took: dict[str, set[str]] = {}
    for a, b, of_a in games:
        if a == b or not 0 <= of_a <= 1:
            raise ValueError(f"not a game: {(a, b, of_a)}")
        for player, other, got in ((a, b, of_a), (b, a, 1 - of_a)):
            points[player] = points.get(player, 0.0) + got
            against = met.setdefault(player, {})
            against[other] = against.get(other, 0.0) + 1
            if got > 0:
                took.setdefault(player, set()).add(other)
    if not games:
        raise NotComparable("no games")
    _check_connected(set(points), took)
    return _on_scale(_strengths(points, met))


def _strengths(points: dict[str, float], met: dict[str, dict[str, float]]) -> dict[str, float]:
    """Log strengths with mean 0."""
    strength = dict.fromkeys(points, 1.0)
    for _ in range(_MAX_ITERATIONS):
        moved = 0.0
        for player, got in points.items():
            own = strength[player]
            shares = [n / (own + strength[other]) for other, n in met[player].items()]
            strength[player] = got / math.fsum(shares)
            moved = max(moved, abs(math.log(strength[player] / own)))
        if moved < _TOLERANCE:
            break
    else:
        raise NotComparable(f"no maximum found in {_MAX_ITERATIONS} steps: nearly separated")
    centre = fmean(math.log(value) for value in strength.values())
    return {player: math.log(value) - centre for player, value in strength.items()}


def _on_scale(logs: dict[str, float]) -> dict[str, float]:
    return {player: CENTRE + SCALE * value for player, value in logs.items()}


def _check_connected(players: set[str], took: dict[str, set[str]]) -> None:
    """Raise NotComparable unless the graph of scored points is strongly connected, so that a
    maximum exists."""
    given: dict[str, set[str]] = {}
    for player, others in took.items():
        for other in others:
            given.setdefault(other, set()).add(player)
    start = min(players)
    for edges in (took, given):
        reached, open_ = {start}, [start]
        while open_:
            new = edges.get(open_.pop(), set()) - reached
            reached |= new
            open_ += new
        if reached != players:
            raise NotComparable(f"no points between {sorted(reached)} and the others, one way")


def _ends(values: Sequence[float]) -> tuple[float | None, float | None]:
    if not values:
        return None, None
    ordered = sorted(values)
    tail = (1 - CONFIDENCE) / 2
    last = len(ordered) - 1
    return ordered[math.floor(tail * last)], ordered[math.ceil((1 - tail) * last)]
