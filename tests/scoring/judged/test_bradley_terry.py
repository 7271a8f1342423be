"""Tests of ratings: the maximum is unique, intervals cover the true value, and unratable data are
refused."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.tasks.scoring.metrics.judges import (
    Game,
    NotComparable,
    fit,
    ratings,
)


def expected_points(elo_a: float, elo_b: float) -> float:
    return 1 / (1 + 10 ** ((elo_b - elo_a) / 400))


def played(elos: dict[str, float], games: int, seed: int) -> list[Game]:
    draw = random.Random(seed)
    found: list[Game] = []
    for _ in range(games):
        a, b = draw.sample(sorted(elos), 2)
        found.append((a, b, float(draw.random() < expected_points(elos[a], elos[b]))))
    return found


def test_two_players_in_closed_form() -> None:
    elos = fit([("a", "b", 1.0)] * 3 + [("b", "a", 1.0)])
    assert elos["a"] - elos["b"] == pytest.approx(400 * math.log10(3))
    assert elos["a"] + elos["b"] == pytest.approx(2000)
    assert fit([("a", "b", 0.5)]) == pytest.approx({"a": 1000, "b": 1000})


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_it_is_the_maximum(seed: int) -> None:
    """At the maximum each player's expected points equal its actual points: the gradient is
    zero."""
    games = played({"a": 900, "b": 1000, "c": 1100}, 60, seed)
    try:
        elos = fit(games)
    except NotComparable:
        return
    for player in elos:
        got = sum(x if a == player else 1 - x for a, b, x in games if player in (a, b))
        due = 0.0
        for a, b, _ in games:
            if player in (a, b):
                other = b if a == player else a
                due += expected_points(elos[player], elos[other])
        assert got == pytest.approx(due, abs=1e-5)


def test_intervals_cover_the_truth() -> None:
    truth = {"a": 850.0, "b": 1000.0, "c": 1150.0}
    covered = total = 0
    for seed in range(30):
        found = ratings(played(truth, 200, seed), draws=100, seed=seed)
        assert list(found) == sorted(found, key=lambda player: -found[player].elo)
        for player, rating in found.items():
            assert rating.low is not None and rating.high is not None
            covered += rating.low <= truth[player] <= rating.high
            total += 1
    assert 0.87 <= covered / total <= 1.0


def test_games_of_one_task_are_drawn_together() -> None:
    """Repeating each game ten times adds no information, so the interval must not shrink."""
    games = played({"a": 950, "b": 1050}, 60, 1)
    alone = ratings(games, draws=300)["a"]
    copies = [game for game in games for _ in range(10)]
    together = ratings(copies, [place // 10 for place in range(600)], draws=300)["a"]
    assert together.low == pytest.approx(alone.low)
    assert together.high == pytest.approx(alone.high)


def test_same_seed_same_intervals() -> None:
    games = played({"a": 950, "b": 1050}, 40, 1)
    assert ratings(games, draws=50, seed=3) == ratings(games, draws=50, seed=3)


def test_what_cannot_be_rated() -> None:
    with pytest.raises(NotComparable):
        fit([("a", "b", 1.0), ("b", "c", 1.0)])  # c never took a point
    with pytest.raises(NotComparable):
        fit([("a", "b", 0.5), ("c", "d", 0.5)])
    with pytest.raises(NotComparable):
        fit([])
    for game in (("a", "a", 1.0), ("a", "b", 2.0)):
        with pytest.raises(ValueError):
            fit([game])


def test_no_interval_where_too_many_draws_have_no_maximum() -> None:
    found = ratings([("a", "b", 1.0)] * 3 + [("b", "a", 1.0)], draws=200)
    assert found["a"].low is None and found["a"].high is None
