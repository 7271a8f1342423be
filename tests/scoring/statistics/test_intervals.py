"""Tests of Wilson's interval and of means over questions, repeats and clusters, against statsmodels
and true values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from tutti.tasks.scoring.statistics import mean_interval, wilson


@given(st.integers(1, 200), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_is_statsmodels(n: int, data: st.DataObject, confidence: float) -> None:
    """This holds for any count, and the ends are within 0 to 1."""
    k = data.draw(st.integers(0, n))
    found = wilson(k, n, confidence)
    expected = proportion_confint(k, n, alpha=1 - confidence, method="wilson")
    assert found == pytest.approx(expected, abs=1e-9)
    assert found is not None and 0 <= found[0] < found[1] <= 1


def test_nothing_has_no_interval() -> None:
    """The cases are no trial, and one task or one cluster scored outside 0 to 1."""
    assert wilson(0, 0) is None
    for found in (mean_interval([[2.0]]), mean_interval([[2.0], [0.0]], ["a", "a"])):
        assert (found.low, found.high, found.se) == (None, None, None)


def test_one_task_or_cluster_counts_once() -> None:
    """Scores from 0 to 1 have Wilson's interval of one task and no standard error."""
    for found in (mean_interval([[1.0]]), mean_interval([[1.0], [1.0]], ["a", "a"])):
        assert (found.low, found.high) == wilson(1, 1) and found.se is None


@given(n=st.floats(0.5, 1e6))
def test_none_and_all_end_at_exactly_0_and_1(n: float) -> None:
    """An end of 4.9e-17 would appear in tables and SQL."""
    none, every = wilson(0, n), wilson(n, n)
    assert none is not None and none[0] == 0.0 and every is not None and every[1] == 1.0


def test_right_or_wrong_is_wilson() -> None:
    """Without repeats and clusters the interval is exactly Wilson's."""
    found = mean_interval([[1.0]] * 7 + [[0.0]] * 3)
    assert (found.low, found.high) == pytest.approx(wilson(7, 10))


def test_repeats_are_no_questions() -> None:
    """For ten tasks with equal answers in every trial, 500 trials give the same interval as ten,
    and never a wider one."""
    once = mean_interval([[1.0]] * 7 + [[0.0]] * 3)
    often = mean_interval([[1.0] * 50] * 7 + [[0.0] * 50] * 3)
    assert (often.n, often.value) == (10, once.value)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


def test_all_alike_is_not_certain() -> None:
    """If all are correct or half correct, also within a cluster, each cluster counts as one
    question."""
    assert mean_interval([[1.0] * 4] * 6)[1:3] == pytest.approx(wilson(6, 6))
    assert mean_interval([[0.5]] * 6)[1:3] == pytest.approx(wilson(3, 6))
    assert mean_interval([[1.0]] * 6, list("aabbcc"))[1:3] == pytest.approx(wilson(3, 3))


@pytest.mark.parametrize(
    ("groups", "labels", "df"),
    [
        ([[0.25], [0.75], [0.5], [1.0], [0.75]], None, 4),  # no coins
        ([[1.0]] * 4 + [[0.0]] * 2 + [[1.0], [0.0]] * 2, list("aabbccddee"), 4),  # not alone
    ],
)
def test_scores_and_clusters_by_hand(
    groups: list[list[float]], labels: list[str] | None, df: int
) -> None:
    """The interval is Wilson's with n over the design effect, less by (z / t)²; the additional half
    task applies only to repeats of correct and wrong answers."""
    found = mean_interval(groups, labels)
    n, share = len(groups), found.value
    assert found.se is not None
    effect = (n - 1) * found.se**2 / (share * (1 - share))
    worth = n / effect * (1.959964 / stats.t.ppf(0.975, df)) ** 2
    expected = wilson(share * worth, worth)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-6)


def test_scores_beyond_one_have_students_interval() -> None:
    """Mean 2, s = 1, t(2) = 4.30265: half width 4.30265 / √3."""
    found = mean_interval([[1.0], [2.0], [3.0]])
    assert (found.low, found.high) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.integers(1, 5))
def test_an_interval_of_scores_is_within_them(values: list[float], clusters: int) -> None:
    """The interval contains the mean and stays within 0 to 1 for any scores and clusters."""
    labels = [place % clusters for place in range(len(values))]
    found = mean_interval([[value] for value in values], labels)
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.value + 1e-12
        assert found.value - 1e-12 <= found.high <= 1


def test_coverage_of_clusters_and_repeats() -> None:
    """With 300 data sets each, coverage is between 91 and 99 %; the bench has 2,000."""
    held = {"clusters": 0, "repeats": 0}
    for run in range(300):
        random = np.random.default_rng(run)
        labels = np.repeat(np.arange(12), random.integers(1, 9, 12))
        for kind, clustered in (("clusters", True), ("repeats", False)):
            chances = random.beta(1.2, 0.8, 12)
            hard = chances[labels] if clustered else chances
            scores = (random.random((len(hard), 3)) < hard[:, None]).astype(float)
            found = mean_interval(scores, labels.tolist() if clustered else None)
            assert found.low is not None and found.high is not None
            held[kind] += found.low <= 0.6 <= found.high
    assert all(273 <= count <= 297 for count in held.values()), held


@pytest.mark.parametrize(
    ("groups", "words"),
    [([], "at least 1"), ([[1.0], []], "task 1 has no trials"), ([[float("nan")]], "not finite")],
)
def test_what_is_no_sample_is_refused(groups: list[list[float]], words: str) -> None:
    """The error names the fault."""
    with pytest.raises(ValueError, match=words):
        mean_interval(groups)
    with pytest.raises(ValueError, match="1 clusters for 2 tasks"):
        mean_interval([[1.0], [0.0]], ["a"])
