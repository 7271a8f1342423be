"""Tests of intervals from aggregates, against values computed manually or printed in tables."""

import numpy as np
import pytest

from tutti.tasks.sweeps.results.intervals import (
    BINS,
    from_interval,
    mean_interval,
    rate_per_min,
    ratio,
    t_interval,
    tail_interval,
)


def test_t_interval_by_hand() -> None:
    # Mean 2, s = 1, t(2) = 4.30265: half width 4.30265 / √3.
    assert t_interval([1, 2, 3]) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)
    assert t_interval([1.0]) is None
    assert mean_interval(2, 1, 3) == t_interval([1, 2, 3])


def test_a_steady_stream_has_a_narrow_rate() -> None:
    interval = rate_per_min([10] * BINS, 100.0)
    assert interval == pytest.approx((120, 120))


def test_the_rate_lies_in_its_interval() -> None:
    counts = [8, 12] * (BINS // 2)
    low, high = rate_per_min(counts, 100.0) or (0, 0)
    assert low <= 120 <= high
    uneven = rate_per_min([4] * (BINS // 2) + [16] * (BINS // 2), 100.0)
    assert uneven is not None and uneven[1] - uneven[0] > high - low  # a drift widens it


def test_short_windows_have_no_rate_interval() -> None:
    assert rate_per_min([2] * BINS, 40) is None
    assert rate_per_min([100] * BINS, 0) is None


def test_tail_of_many_steps_and_of_few() -> None:
    latencies = np.random.default_rng(0).exponential(1.0, 5000)
    low, high = tail_interval(latencies) or (0.0, 0.0)
    assert low < -np.log(0.05) < high < 2 * low
    assert tail_interval(latencies[:199]) is None


def test_ratio_holds_the_estimate_and_shrinks_to_it() -> None:
    wide = ratio(60, (50, 70), 30, (25, 35))
    assert wide is not None and wide[0] < 2 < wide[1]
    assert ratio(60, (60, 60), 30, (30, 30)) == pytest.approx((2, 2))
    # A known bottom only scales the top's interval.
    assert ratio(60, (50, 70), 30, (30, 30)) == pytest.approx((50 / 30, 70 / 30))
    assert ratio(60, (50, 70), 30, (0, 60)) is None


def test_p_and_width_from_an_interval() -> None:
    # An end at 1 is a p of 0.05, and at 95 % the interval is itself.
    p, same = from_interval(2.0, (1.0, 4.0), 0.95)
    assert p == pytest.approx(0.05, abs=1e-6) and same == pytest.approx((1, 4))
    _, wider = from_interval(2.0, (1.0, 4.0), 0.99)
    assert wider[0] < 1 and wider[1] > 4
    with pytest.raises(ValueError, match="ratio's interval"):
        from_interval(1.0, (0.0, 2.0), 0.95)
