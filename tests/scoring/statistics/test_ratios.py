"""Tests of ratios of sums, goodput, batch means, bootstrap and the Pareto front."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tutti.tasks.scoring.statistics import (
    Point,
    batch_interval,
    bootstrap_mean,
    goodput,
    pareto_front,
    ratio_of_sums,
    spread,
)
from tutti.tasks.scoring.statistics.pareto import FrontPlace


@settings(deadline=None)
@given(st.integers(4, 40), st.integers(0, 1000))
def test_fiellers_ends_are_where_the_test_turns(n: int, seed: int) -> None:
    """At each end the mean of top - R bottom differs from 0 with p = 0.05 exactly."""
    random = np.random.default_rng(seed)
    bottom = random.uniform(0.5, 1.5, n)
    top = bottom * random.uniform(1, 3, n)
    found = ratio_of_sums(top, bottom)
    assert found.value == pytest.approx(top.sum() / bottom.sum())
    assert found.low is not None and found.value is not None and found.high is not None
    for end in (found.low, found.high):
        assert stats.ttest_1samp(top - end * bottom, 0).pvalue == pytest.approx(0.05, rel=1e-6)
    assert found.low < found.value < found.high


def test_cost_of_nothing_solved_is_not_known() -> None:
    """If no task is solved there is no value. If one of three is solved there is a value but no
    upper end, because the true number could be zero."""
    assert ratio_of_sums([1.0, 2.0], [0.0, 0.0])[:3] == (None, None, None)
    assert ratio_of_sums([1.0, 1.0, 1.0], [0.0, 0.0, 1.0])[:3] == (3.0, None, None)
    assert ratio_of_sums([1.0], [1.0])[:3] == (1.0, None, None)
    with pytest.raises(ValueError, match="top has 1 values, bottom 2"):
        ratio_of_sums([1.0], [1.0, 2.0])


def test_goodput_counts_what_is_solved_in_time() -> None:
    """There is one good task per second, each third too slow, each fifth wrong, some outside the
    window."""
    ends = np.arange(1000) + 0.5
    solved = (np.arange(1000) % 5 != 0).astype(float)
    took = np.where(np.arange(1000) % 3 == 0, 9.0, 1.0)
    found = goodput((ends, solved, took), 5.0, 100, 900, engines=2)
    good = int(np.sum((solved > 0) & (took < 5) & (ends >= 100) & (ends < 900)))
    assert found.tasks == good
    assert found.per_engine_hour == pytest.approx(good * 3600 / 800 / 2)
    assert found.low is not None and found.high is not None
    assert found.low < found.per_engine_hour < found.high
    few = goodput((ends[:40], solved[:40], took[:40]), 5.0, 0, 40)
    assert (few.low, few.high) == (None, None) and few.tasks > 0
    assert goodput(([], [], []), 5.0, 0, 40) == (0.0, None, None, 0)
    with pytest.raises(ValueError, match="empty window"):
        goodput((ends, solved, took), 5.0, 10, 10)


def test_batch_means_by_hand() -> None:
    """Ten batches of two bins have mean 5, s of the batch means and t(9) = 2.26216; alternating
    batches are not positively correlated, so nothing is added."""
    means = np.array([4, 6] * 5, dtype=float)
    found = batch_interval(np.repeat(means, 2))
    half = 2.262157 * means.std(ddof=1) / math.sqrt(10)
    assert found == pytest.approx((5, 5 - half, 5 + half, 0), abs=1e-5)
    with pytest.raises(ValueError, match="at least 20"):
        batch_interval(means)


def test_the_correlation_of_batches_by_hand() -> None:
    """With the mean of 0.6 subtracted, neighbours' products sum to 0.24 and squares to 2.4: a
    correlation of 0.1, which ten batches underestimate by 0.1; the interval is √(1.2/0.8) times as
    wide. The correlation is at most 0.8."""
    means = np.array([1, 1, 0, 0, 1, 1, 0, 0, 1, 1], dtype=float)
    found = batch_interval(np.repeat(means, 2))
    half = 2.262157 * means.std(ddof=1) / math.sqrt(10) * math.sqrt(1.2 / 0.8)
    assert found == pytest.approx((0.6, 0.6 - half, 0.6 + half, 0.2), abs=1e-5)
    wave = np.sin(2 * np.pi * np.arange(1, 11) / 11)  # neighbours correlate by cos(2π/11), 0.84
    assert batch_interval(np.repeat(wave, 2)).correlation == 0.8


def test_memory_widens_the_interval() -> None:
    """For 200 windows with dependent bins, 90 to 99 % of the intervals contain the true value; an
    interval that assumes independent bins does so in two of three."""
    held = naive = 0
    for run in range(200):
        x = np.random.default_rng(run).normal(0, 1, 240)
        for place in range(1, 240):
            x[place] += 0.7 * x[place - 1]
        found = batch_interval(x)
        held += found.low <= 0 <= found.high
        naive += abs(x.mean()) <= 1.96 * x.std() / math.sqrt(240)
    assert 180 <= held <= 198 and naive < 150


def test_a_percentile_by_its_sections() -> None:
    """The value is that of the whole series."""
    x = np.random.default_rng(0).exponential(1, 2000)
    found = batch_interval(x, lambda values: float(np.quantile(values, 0.95)))
    assert found.value == np.quantile(x, 0.95)
    assert found.low < -math.log(0.05) < found.high


def test_the_bootstrap_follows_the_skew_and_the_seed() -> None:
    """For skewed costs the upper end is farther away, the same seed gives the same interval, and
    equal or few values give none."""
    cost = np.random.default_rng(0).lognormal(0, 1, 40)
    found = bootstrap_mean(cost, seed=1)
    assert found is not None and found == bootstrap_mean(cost, seed=1)
    assert found != bootstrap_mean(cost, seed=2)
    assert found[1] - cost.mean() > cost.mean() - found[0]
    assert bootstrap_mean([1.0] * 10) is None
    assert bootstrap_mean([1.0, 2.0, 3.0, 4.0]) is None
    assert bootstrap_mean([1.0, 2.0, 3.0, 4.0, 6.0]) is not None
    assert bootstrap_mean(cost, ["a", "b"] * 20) is None


def test_the_bootstrap_of_many_is_students() -> None:
    """For 400 normal values in clusters of two, its ends are within 6 % of the t interval's."""
    x = np.random.default_rng(3).normal(10, 1, 400)
    labels = [place // 2 for place in range(400)]
    found, known = bootstrap_mean(x, labels, draws=4000), spread(x, labels)
    assert found is not None and known.se is not None
    half = stats.t.ppf(0.975, known.df) * known.se
    assert (known.mean - found[0], found[1] - known.mean) == pytest.approx((half, half), rel=0.06)


def point(cost: float, accuracy: float, wide: float = 0.0) -> Point:
    return Point(cost, cost - wide, cost + wide, accuracy, accuracy - wide, accuracy + wide)


def test_the_front_without_doubt() -> None:
    """A cheap and bad point and an expensive and good one are on it; an expensive and bad one is
    not."""
    found = pareto_front([point(1, 0.5), point(2, 0.8), point(3, 0.6)])
    assert found == [FrontPlace(True, "on"), FrontPlace(True, "on"), FrontPlace(False, "off")]


def test_wide_intervals_leave_it_open() -> None:
    """Membership is then uncertain; an unknown end excludes nothing, and equal points are both on
    it."""
    found = pareto_front([point(1, 0.5, 0.2), point(1.1, 0.45, 0.2)])
    assert found == [FrontPlace(True, "maybe"), FrontPlace(False, "maybe")]
    unknown = Point(3, None, None, 0.6, 0.5, 0.7)
    assert pareto_front([point(1, 0.9), unknown])[1] == FrontPlace(False, "maybe")
    assert [each.on_front for each in pareto_front([point(1, 0.5), point(1, 0.5)])] == [True, True]
    with pytest.raises(ValueError, match="point 1"):
        pareto_front([point(1, 0.5), Point(math.nan, None, None, 0.5, None, None)])


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 1), st.floats(0, 1)), min_size=1))
def test_someone_is_on_the_front(given_points: list[tuple[float, float, float]]) -> None:
    """The front is never empty, and a point that is certainly off is not on it."""
    found = pareto_front([point(*each) for each in given_points])
    assert any(each.on_front for each in found)
    assert not any(each.on_front and each.standing == "off" for each in found)
    assert all(each.on_front for each in found if each.standing == "on")
