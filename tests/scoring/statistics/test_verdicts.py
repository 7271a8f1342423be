"""Tests of Holm's correction against statsmodels, the four verdicts, equivalence by two one-sided
tests, and power."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import ttost_paired

from tutti.tasks.scoring.statistics import (
    Finding,
    compare_paired,
    expected_sd,
    judge,
    minimum_detectable,
    simultaneous_confidence,
)
from tutti.tasks.scoring.statistics.paired import holm


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_bonferroni_closed(ps: list[float]) -> None:
    """By definition it is the largest Bonferroni value of any family with this member."""
    families = [
        family
        for size in range(1, len(ps) + 1)
        for family in itertools.combinations(range(len(ps)), size)
    ]
    expected = [
        max(min(1.0, len(f) * min(ps[i] for i in f)) for f in families if place in f)
        for place in range(len(ps))
    ]
    assert holm(ps) == pytest.approx(expected)


def test_holm_is_statsmodels() -> None:
    """The expected values are those of multipletests(…, method="holm") of statsmodels 0.15, which
    collects all garbage at every call and is therefore not called here."""
    expected = [0.05, 0.04, 0.09, 0.09, 0.5]
    assert holm([0.0125, 0.008, 0.03, 0.04, 0.5]) == pytest.approx(expected)


def test_a_test_that_could_not_be_had_does_not_count() -> None:
    """None stays None and is no member of the family."""
    assert holm([0.01, None, 0.04]) == [0.02, None, 0.04]
    assert holm([]) == []
    for wrong in (1.5, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm([wrong])


def finding(low: float, high: float, p: float, wide: float = 0.0) -> Finding:
    return Finding((low + high) / 2, (low, high), (low - wide, high + wide), p)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (finding(0.01, 0.2, 0.01), "better"),
        (finding(-0.2, -0.01, 0.01), "worse"),
        (finding(-0.03, 0.04, 0.6), "same"),
        (finding(-0.03, 0.06, 0.6), "inconclusive"),
        (finding(0.01, 0.04, 0.01), "better"),  # sure, though within the margin
        (finding(0.01, 0.2, 0.06), "inconclusive"),  # interval and test disagree
        (finding(-0.03, 0.04, 0.6, wide=0.02), "inconclusive"),  # not all intervals at once
        (Finding(0.5, None, None, None), "inconclusive"),
        (Finding(0.5, None, None, 0.001), "inconclusive"),
        (Finding(0.5, (0.4, 0.6), (0.4, 0.6), None), "inconclusive"),
    ],
)
def test_four_verdicts(found: Finding, word: str) -> None:
    """Each result is one word; for costs an increase is worse."""
    assert judge([found], 0.05)[0].word == word
    turned = {"better": "worse", "worse": "better"}.get(word, word)
    assert judge([found], 0.05, higher_is_better=False)[0].word == turned


def test_many_comparisons_need_more() -> None:
    """A result that is significant alone is not among 20, and the reason says so."""
    one = finding(0.01, 0.2, 0.03)
    assert judge([one], 0.05)[0].word == "better"
    among = judge([one] + [finding(-0.2, 0.2, 0.9)] * 19, 0.05)[0]
    assert among.word == "inconclusive"
    assert among.p_holm == pytest.approx(0.6)
    assert among.reason.endswith("over all 20 compared together p is 0.6 (Holm)")


@pytest.mark.parametrize("scale", [0.05, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("count", [1, 5])
def test_same_is_two_one_sided_tests(scale: float, count: int) -> None:
    """The reference is statsmodels' ttost_paired at half of 0.05 divided by the number of
    comparisons."""
    random = np.random.default_rng(5)
    a = random.normal(0.5, 0.2, 40)
    b = a + random.normal(0, scale, 40)
    wide = compare_paired(a[:, None], b[:, None], confidence=simultaneous_confidence(count))
    assert wide.low is not None and wide.high is not None
    found = Finding(wide.difference, (-1.0, 1.0), (wide.low, wide.high), 0.9)
    p = ttost_paired(b, a, -0.05, 0.05)[0]
    said = judge([found] * count, 0.05)[0].word
    assert said == ("same" if p < 0.025 / count else "inconclusive")


@pytest.mark.parametrize("n", [5, 30, 400])
def test_minimum_detectable_is_statsmodels(n: int) -> None:
    """The noncentral t with one tail is used, as the other tail is negligible."""
    expected = TTestPower().solve_power(nobs=n, alpha=0.025, power=0.8, alternative="larger")
    assert minimum_detectable(n, 0.4) == pytest.approx(0.4 * expected, rel=1e-3)


def test_minimum_detectable_is_found_that_often() -> None:
    """Of 500 runs with exactly that difference, four in five detect it."""
    n, sd = 30, 0.3
    shift, found = minimum_detectable(n, sd), 0
    for run in range(500):
        d = np.random.default_rng(run).normal(shift, sd, n)
        found += (compare_paired(np.zeros((n, 1)), d[:, None]).p or 1) < 0.05
    assert 0.74 < found / 500 < 0.86


def test_expected_spread_is_that_of_simulated_trials() -> None:
    """Two equal sides have four trials of correct and wrong answers on tasks of different
    difficulty."""
    random = np.random.default_rng(0)
    weight = 1.0  # Beta(pw, (1-p)w) has a correlation of 1 / (1 + w) between trials
    chances = random.beta(0.6 * weight, 0.4 * weight, 200_000)
    d = (random.binomial(4, chances) - random.binomial(4, chances)) / 4
    assert expected_sd(0.6, 4, alike=1 / (1 + weight)) == pytest.approx(d.std(), rel=0.01)


def test_refusals() -> None:
    """Errors are raised for invalid plans and margins."""
    for n, sd in ((1, 0.3), (10, -1.0), (10, float("nan"))):
        with pytest.raises(ValueError, match="two tasks"):
            minimum_detectable(n, sd)
    with pytest.raises(ValueError, match="between 0 and 1"):
        minimum_detectable(10, 0.3, power=1.0)
    with pytest.raises(ValueError, match="not shares"):
        expected_sd(1.2)
    with pytest.raises(ValueError, match="margin"):
        judge([], float("nan"))
    with pytest.raises(ValueError, match="no comparisons"):
        simultaneous_confidence(0)
