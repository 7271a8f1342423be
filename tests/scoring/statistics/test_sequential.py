"""Tests of monitoring after every task: the sequence in manual examples, the stated false-alarm
rate, four results."""

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tutti.tasks.scoring.statistics import ConfidenceSequence, InterimResult

Array = NDArray[np.float64]


def look(differences: Iterable[float], planned: int, margin: float = 0.0) -> list[InterimResult]:
    looks = ConfidenceSequence(planned, margin)
    return [looks.add(float(each)) for each in differences]


def ends(differences: Iterable[float], planned: int) -> tuple[Array, Array]:
    found = np.array([each[1:3] for each in look(differences, planned)])
    return found[:, 0], found[:, 1]


def fortune(differences: list[float], planned: int, mean: float, sign: int) -> list[float]:
    """Return one bettor's capital after each task, by explicit multiplication."""
    x = [(d + 1) / 2 for d in differences]
    m = (mean + 1) / 2
    capital, held, total, squares, found = 1.0, [], 0.5, 0.25, []
    for t, value in enumerate(x, start=1):
        stake = math.sqrt(2 * math.log(2 / 0.05) / (planned * squares / t))
        stake = min(stake, 0.5 / (m if sign > 0 else 1 - m))
        capital *= 1 + sign * stake * (value - m)
        total += value
        squares += (value - total / (t + 1)) ** 2
        held.append(value)
        found.append(capital)
    return found


def test_the_sequence_by_hand() -> None:
    """A candidate is excluded from the task at which a bettor has 40 times the stake."""
    random = np.random.default_rng(0)
    d = np.clip(random.normal(0.3, 0.3, 60), -1, 1)
    low, high = ends(d, 60)
    for t in (20, 40, 59):
        for mean in (-0.2, 0.0, 0.2, 0.5, 0.8):
            is_out = max(fortune(list(d), 60, mean, 1)[: t + 1]) >= 40
            assert is_out == (mean <= low[t])
            is_out = max(fortune(list(d), 60, mean, -1)[: t + 1]) >= 40
            assert is_out == (mean >= high[t])


@settings(deadline=None, max_examples=settings().max_examples // 2)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.integers(1, 100))
def test_the_interval_only_shrinks(differences: list[float], planned: int) -> None:
    """Later tasks do not change earlier intervals."""
    low, high = ends(differences, planned)
    assert (np.diff(low) >= 0).all() and (np.diff(high) <= 0).all()
    assert (low >= -1).all() and (high <= 1).all()
    half = len(differences) // 2 + 1
    first = ends(differences[:half], planned)
    assert (first[0] == low[:half]).all() and (first[1] == high[:half]).all()
    turned = ends([-d for d in differences], planned)
    assert turned[1] == pytest.approx(-low) and turned[0] == pytest.approx(-high)


def test_watching_raises_no_false_alarms() -> None:
    """In 250 A/A runs monitored after every task, at most 5 % ever alarm; a t-test would alarm in a
    third of them."""
    alarms = 0
    for run in range(250):
        random = np.random.default_rng(run)
        chances = random.beta(0.8, 0.8, 100)
        d = (random.binomial(2, chances) - random.binomial(2, chances)) / 2
        low, high = ends(d, 100)
        alarms += bool((low >= 0).any() or (high <= 0).any())
    assert alarms <= 250 * 0.05


def test_four_ends_of_a_watched_run() -> None:
    """The results are better and worse early, same when the margin is reached, and inconclusive at
    the end."""
    random = np.random.default_rng(2)
    noise = random.normal(0, 0.1, 400)
    assert look(np.clip(0.5 + noise[:40], -1, 1), 400, 0.05)[-1].verdict == "better"
    assert look(np.clip(-0.5 + noise[:40], -1, 1), 400, 0.05)[-1].verdict == "worse"
    assert look(noise[:20], 400, 0.05)[-1].verdict is None
    assert look(noise, 400, 0.05)[-1].verdict == "same"
    assert look(noise[:20], 20, 0.05)[-1].verdict == "inconclusive"


def test_without_a_margin_nothing_is_the_same() -> None:
    """Without a margin, differences of 0 stay inconclusive to the end."""
    looks = ConfidenceSequence(400)
    assert {looks.add(0.0).verdict for _ in range(399)} == {None}
    assert looks.add(0.0).verdict == "inconclusive"


def test_an_interval_that_ends_at_the_margin_is_within_it() -> None:
    """One step of the candidates earlier it is not."""
    looks = ConfidenceSequence(2000, 0.05)
    found = [looks.add(0.0) for _ in range(200)]
    first = next(place for place, each in enumerate(found) if each.verdict)
    assert found[first][1:] == (-0.05, 0.05, "same")
    assert found[first - 1][1:] == (-0.055, 0.055, None)


def test_refusals() -> None:
    """Errors are raised for values outside -1 to 1, an empty plan and a margin of 0."""
    for wrong in (1.5, math.nan):
        with pytest.raises(ValueError, match="-1 to 1"):
            ConfidenceSequence(10).add(wrong)
    with pytest.raises(ValueError, match="at least 1"):
        ConfidenceSequence(0)
    with pytest.raises(ValueError, match="margin"):
        ConfidenceSequence(10, -1)
