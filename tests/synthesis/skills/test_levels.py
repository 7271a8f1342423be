"""Tests that a level is assigned only if the interval supports it."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.synthesis.making.band import Rate
from tutti.tasks.synthesis.skills.making import EASY_FROM, HARD_TO, level_of


@pytest.mark.parametrize(
    ("n", "solved", "level"),
    [
        (0, 0, "unknown"),
        (4, 0, "unknown"),
        (4, 4, "unknown"),
        (8, 0, "hard"),
        (8, 8, "easy"),
        (8, 4, "unknown"),
        (40, 20, "medium"),
        (40, 5, "hard"),
        (40, 35, "easy"),
    ],
)
def test_few_attempts_say_nothing(n: int, solved: int, level: str) -> None:
    assert level_of(Rate(n, solved)).level == level


@given(st.integers(0, 200), st.data())
def test_the_interval_lies_in_the_levels_range(n: int, data: st.DataObject) -> None:
    found = level_of(Rate(n, data.draw(st.integers(0, n))))
    ranges = {"hard": (0.0, HARD_TO), "medium": (HARD_TO, EASY_FROM), "easy": (EASY_FROM, 1.0)}
    low, high = ranges.get(found.level, (0.0, 1.0))
    assert low <= found.low <= found.high <= high
    assert found.level != "unknown" or found.high > HARD_TO or n == 0


@pytest.mark.parametrize("n", [8, 16, 64])
def test_wrong_levels_are_rare(n: int) -> None:
    """For any pass rate, at most 5 % of tasks get a wrong level."""
    rng, wrong, tasks = Random(n), 0, 4000
    for _ in range(tasks):
        rate = rng.random()
        true = "hard" if rate <= HARD_TO else "easy" if rate >= EASY_FROM else "medium"
        found = level_of(Rate(n, sum(rng.random() < rate for _ in range(n)))).level
        wrong += found not in (true, "unknown")
    assert wrong / tasks <= 0.05


def test_no_attempt_is_the_whole_interval() -> None:
    found = level_of(None)
    assert (found.low, found.high) == (0.0, 1.0)
    assert found.labels["attempts"] == "0" and found.labels["level"] == "unknown"
