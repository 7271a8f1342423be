"""Tests of paired comparisons against scipy and statsmodels, and of results for few or equal
tasks."""

import math
from fractions import Fraction
from itertools import product
from operator import mul

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from tutti.tasks.scoring.statistics import compare_paired
from tutti.tasks.scoring.statistics.paired import sign_flip


def column(values: object) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the values as one trial per task."""
    return np.asarray(values, dtype=float)[:, None]


def test_many_tasks_are_the_paired_t_test() -> None:
    """Difference, error, interval and p equal scipy's."""
    random = np.random.default_rng(1)
    a = random.normal(0.5, 0.2, 40)
    b = a + random.normal(0.06, 0.1, 40)
    found = compare_paired(column(a), column(b))
    test = stats.ttest_rel(b, a)
    low, high = test.confidence_interval(0.95)
    assert (found.n, found.test) == (40, "paired t-test")
    assert (found.low, found.high, found.p) == pytest.approx((low, high, test.pvalue), rel=1e-9)
    assert found.se == pytest.approx(stats.sem(b - a))


def test_repeats_are_averaged_first() -> None:
    """Ten trials of 20 tasks are 20 pairs. A reference system takes each trial for a pair and
    reports noise within tasks as a significant difference."""
    random = np.random.default_rng(3)
    a, b = random.random((2, 20, 10))
    found = compare_paired(a, b)
    assert found.n == 20
    assert found.p == pytest.approx(stats.ttest_rel(b.mean(axis=1), a.mean(axis=1)).pvalue)
    alike = compare_paired([[1.0] * 10, [0.0] * 10], [[0.0] * 10, [0.0] * 10])
    assert alike.p == 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_right_or_wrong_is_exact_mcnemar(pairs: list[tuple[bool, bool]]) -> None:
    """The result equals statsmodels' for any table; the interval contains the difference and has a
    positive width."""
    a, b = (np.array([pair[side] for pair in pairs], dtype=float) for side in (0, 1))
    found = compare_paired(column(a), column(b))
    table = [[int(np.sum((a == x) & (b == y))) for y in (0, 1)] for x in (0, 1)]
    assert found.test == "exact McNemar"
    expected = mcnemar(table, exact=True).pvalue if (a != b).any() else 1.0
    assert found.p == pytest.approx(expected, rel=1e-9)
    assert found.low is not None and found.high is not None and found.low < found.high


def test_bonett_and_price_by_hand() -> None:
    """9 gained and 1 lost of 30: (10 - 2) / 32 ± 1.959964 √((12/32 - (8/32)²) / 32)."""
    a = [0.0] * 9 + [1.0] * 21
    b = [1.0] * 9 + [0.0] + [1.0] * 20
    found = compare_paired(column(a), column(b))
    half = 1.959964 * math.sqrt((12 / 32 - (8 / 32) ** 2) / 32)
    assert (found.low, found.high) == pytest.approx((0.25 - half, 0.25 + half), abs=1e-6)


@pytest.mark.parametrize(
    ("n", "differ", "is_adjusted"),
    [(20, 9, True), (20, 10, False), (18, 9, False), (19, 9, True), (40, 10, False)],
)
def test_few_differences_among_tasks_that_are_mostly_alike(
    n: int, differ: int, is_adjusted: bool
) -> None:
    """If fewer than ten tasks differ and more than half are equal, one task is added in each
    direction at the largest observed difference; otherwise Student's interval is used."""
    d = np.array([0.5, *[0.25] * (differ - 1), *[0.0] * (n - differ)])
    found = compare_paired(column(np.zeros(n)), column(d))
    if is_adjusted:
        more = np.array([*d, 0.5, -0.5])
        half = 1.959964 * more.std() / math.sqrt(n + 2)
        expected = (more.mean() - half, more.mean() + half)
    else:
        expected = tuple(stats.ttest_1samp(d, 0).confidence_interval(0.95))
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-6)


@settings(deadline=None, max_examples=settings().max_examples // 3)
@given(st.lists(st.integers(-8, 8).map(lambda k: k / 8), min_size=2, max_size=9))
def test_few_tasks_are_tested_by_all_signs(differences: list[float]) -> None:
    """The result equals scipy's exact permutation test of the mean."""
    d = np.array(differences)
    expected = stats.permutation_test(
        (d, np.zeros(len(d))),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    ).pvalue
    assert sign_flip(d) == pytest.approx(expected)


@pytest.mark.parametrize("scale", [1e-14, 1.0, 1e9])
@pytest.mark.parametrize("differences", [[0.1, 0.2, -0.3], [0.7, 0.1, -0.8], [1 / 3] * 3 + [-1.0]])
def test_differences_that_cancel_are_as_near_as_can_be(
    differences: list[float], scale: float
) -> None:
    """The float sum of such differences is about 1e-17 instead of 0; every sign pattern is at least
    as far from 0, so p is 1."""
    assert sign_flip(scale * np.array(differences)) == 1.0


@settings(deadline=None, max_examples=settings().max_examples * 3 // 5)
@given(
    st.lists(st.fractions(-1, 1, max_denominator=60), min_size=1, max_size=8),
    st.sampled_from([Fraction(1, 10**14), Fraction(1, 7), Fraction(1), Fraction(10**9)]),
)
def test_p_is_as_counted_with_fractions(differences: list[Fraction], scale: Fraction) -> None:
    """The reference is brute force without rounding, for decimals and thirds of any size."""
    signs = list(product((1, -1), repeat=len(differences)))
    sums = [abs(sum(map(mul, each, differences), Fraction(0))) for each in signs]
    expected = sum(each >= sums[0] for each in sums) / len(sums)
    found = sign_flip(np.array([float(scale * d) for d in differences]))
    assert found == pytest.approx(expected, abs=1e-12)


def test_scores_of_any_size_differ_by_more_than_rounding() -> None:
    """A gain of 0.1 on a million on 30 tasks is the same everywhere; so is 1e-14 on 1e-13."""
    for size in (1e-13, 1.0, 1e6):
        a = [size * (0.1 * place) for place in range(30)]
        found = compare_paired(column(a), column([x + size * 0.1 for x in a]))
        assert found.test == "sign test", size
        assert found.p == pytest.approx(2 * 0.5**30)


def test_clusters_whose_gains_cancel_are_no_difference() -> None:
    """Each document's gains are 0.1, 0.2 and -0.3: no cluster differs despite float rounding."""
    labels = [place // 3 for place in range(9)]
    found = compare_paired(column([0.0] * 9), column([0.1, 0.2, -0.3] * 3), labels)
    assert (found.clusters, found.test, found.p) == (3, "exact sign-flip", 1.0)


def test_clusters_flip_together() -> None:
    """Three documents of ten tasks that all gain have p = 2/8, not 2/2^30."""
    labels = [place // 10 for place in range(30)]
    gains = [0.1 + 0.001 * place for place in range(30)]
    found = compare_paired(column([0.0] * 30), column(gains), labels)
    assert (found.clusters, found.test, found.p) == (3, "exact sign-flip", 0.25)


@pytest.mark.parametrize("n", [2, 30, 59])
def test_no_difference_at_all_is_no_proof_of_none(n: int) -> None:
    """The interval follows the rule of three, as in the SQL macro `compare`."""
    found = compare_paired(column([1.0] * n), column([1.0] * n))
    bound = 1 - 0.05 ** (1 / n)
    assert (found.low, found.high) == pytest.approx((-bound, bound), rel=1e-9)
    assert (found.difference, found.p) == (0, 1)


def test_the_same_gain_everywhere_has_a_width() -> None:
    """30 tasks gain 0.1 up to rounding: the sign test gives p, and the interval has a positive
    width."""
    a = [0.1 * (place % 9) for place in range(30)]
    found = compare_paired(column(a), column([x + 0.1 for x in a]))
    share = 1 - 0.05 ** (1 / 30)
    assert (found.low, found.high) == pytest.approx((0.1 - 1.1 * share, 0.1 + 0.9 * share))
    assert found.test == "sign test"
    assert found.p == pytest.approx(2 * 0.5**30)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=30),
    st.integers(2, 6),
)
@example([(0.0, 0.0), (0.0, 5e-324)], 2)
def test_the_other_way_round_is_the_negative(
    pairs: list[tuple[float, float]], clusters: int
) -> None:
    """Swapping the sides negates the interval and keeps p."""
    a, b = (column([pair[side] for pair in pairs]) for side in (0, 1))
    labels = [place % clusters for place in range(len(pairs))]
    one, other = compare_paired(a, b, labels), compare_paired(b, a, labels)
    assert one.p == pytest.approx(other.p, abs=1e-9)
    assert one.low is not None and one.high is not None
    assert (other.high, other.low) == pytest.approx((-one.low, -one.high), abs=1e-9)


def test_one_task_has_no_interval() -> None:
    """There is no p either, so nothing looks like a measured result."""
    found = compare_paired([[1.0]], [[0.0]])
    assert (found.difference, found.low, found.high, found.p, found.test) == (-1, *[None] * 3, "")


def test_refusals() -> None:
    """Errors are raised for unpaired sides, no tasks and too many sign patterns."""
    with pytest.raises(ValueError, match="2 and 1 tasks"):
        compare_paired([[1.0], [0.0]], [[1.0]])
    with pytest.raises(ValueError, match="second side: value 0 is not finite"):
        compare_paired([[1.0]], [[math.nan]])
    with pytest.raises(ValueError, match="at most 14"):
        sign_flip(np.ones(15))


def test_a_nothing_is_called_a_difference_as_often_as_stated() -> None:
    """In 400 A/A comparisons of 10 tasks with three trials, at most 5 % plus three standard errors
    report a difference."""
    alarms = 0
    for run in range(400):
        random = np.random.default_rng(run)
        chances = random.beta(0.8, 0.8, 10)[:, None]
        a, b = ((random.random((10, 3)) < chances).astype(float) for _ in range(2))
        p = compare_paired(a, b).p
        assert p is not None
        alarms += p < 0.05
    assert alarms <= 400 * (0.05 + 3 * math.sqrt(0.05 * 0.95 / 400))
