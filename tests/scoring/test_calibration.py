"""Tests of calibration errors and SimpleQA's F1 against their explicit definitions."""

import math
from statistics import harmonic_mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.tasks.scoring.metrics import calibration_error, f1_of_attempted, right_of_attempted

ANSWERS = st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=1, max_size=450)


def by_definition(answers: list[tuple[int, bool]], last: bool) -> float:
    ranked = sorted(answers, key=lambda each: each[0])
    bins = max(1, len(ranked) // 100)
    cut = [ranked[100 * nth : 100 * (nth + 1)] for nth in range(bins - 1)]
    cut += [ranked[100 * (bins - 1) :]] if last else []
    total = 0.0
    for some in cut:
        confidence = sum(stated for stated, _ in some) / 100 / len(some)
        right = sum(is_right for _, is_right in some) / len(some)
        total += len(some) / len(ranked) * (confidence - right) ** 2
    return math.sqrt(total)


@given(ANSWERS)
def test_both_errors(answers: list[tuple[int, bool]]) -> None:
    """The official error omits its last bin, so it is never the larger."""
    found = calibration_error([c / 100 for c, _ in answers], [r for _, r in answers])
    assert found.whole == pytest.approx(by_definition(answers, last=True))
    assert 0 <= found.whole <= 1 and found.n == len(answers)
    if len(answers) < 100:
        assert found.official is None
        return
    assert found.official is not None and found.official <= found.whole + 1e-12
    assert found.official == pytest.approx(by_definition(answers, last=False))
    if len(answers) < 200:
        assert found.official == 0


@pytest.mark.parametrize("given_", [([], []), ([0.5], []), ([1.5], [True])])
def test_bad_input(given_: tuple[list[float], list[bool]]) -> None:
    with pytest.raises(ValueError, match="confidence"):
        calibration_error(*given_)


COUNTS = st.integers(0, 5).flatmap(
    lambda n: st.tuples(st.integers(0, n), st.just(n), st.integers(max(1, n), 8))
)


@given(st.lists(COUNTS, min_size=2, max_size=20))
def test_f1_is_the_harmonic_mean(tasks: list[tuple[int, int, int]]) -> None:
    right, attempted, n = (sum(each) for each in zip(*tasks, strict=True))
    found = f1_of_attempted(tasks)
    if attempted == 0:
        assert found.value == 0 and right_of_attempted(tasks).value is None
        return
    expected = harmonic_mean([right / attempted, right / n]) if right else 0.0
    assert found.value == pytest.approx(expected)
    if found.low is not None and found.high is not None:
        assert found.low - 1e-9 <= expected <= found.high + 1e-9
