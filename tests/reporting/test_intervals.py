"""Intervals against values computed by hand or printed in tables."""

import pytest

from tasks.reporting.intervals import (
    band_half_width,
    difference,
    overlap,
    rate_per_min,
    ratio,
    t_interval,
    wilson,
)


def test_wilson_by_hand() -> None:
    # p = 0.75, n = 40, z² = 3.8415: centre 0.798018 / 1.096037, half width 0.130034.
    assert wilson(30, 40) == pytest.approx((0.598060, 0.858128), abs=1e-5)


@pytest.mark.parametrize(("correct", "n", "edge"), [(0, 10, 0), (10, 10, 1)])
def test_wilson_stays_a_share(correct: int, n: int, edge: int) -> None:
    interval = wilson(correct, n)
    assert interval is not None
    assert interval[edge] == pytest.approx(float(edge), abs=1e-12)
    assert 0 <= interval[0] < interval[1] <= 1


def test_nothing_gives_no_interval() -> None:
    assert wilson(0, 0) is None
    assert t_interval([1.0]) is None


def test_t_interval_by_hand() -> None:
    # Mean 2, s = 1, t(2) = 4.30265: half width 4.30265 / √3.
    assert t_interval([1, 2, 3]) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)


def test_batch_means_by_hand() -> None:
    # Eight batches of 10 s with 4 to 6 steps: mean 30 a minute, s = 6 √(4/7), t(7) = 2.36462.
    counts = [4, 6, 5, 5, 4, 6, 5, 5]
    ends = [10.0 * batch + i for batch, count in enumerate(counts) for i in range(count)]
    half = 2.36462 * 6 * (4 / 7) ** 0.5 / 8**0.5
    assert rate_per_min(ends, 0, 80) == pytest.approx((30 - half, 30 + half), abs=1e-4)


def test_short_windows_have_no_rate_interval() -> None:
    assert rate_per_min([float(i) for i in range(39)], 0, 40) is None
    assert rate_per_min([1.0] * 100, 1, 1) is None


def test_ratio_holds_the_estimate_and_shrinks_to_it() -> None:
    wide = ratio(60, (50, 70), 30, (25, 35))
    assert wide is not None and wide[0] < 2 < wide[1]
    assert ratio(60, (60, 60), 30, (30, 30)) == pytest.approx((2, 2))
    # A known bottom only scales the top's interval.
    assert ratio(60, (50, 70), 30, (30, 30)) == pytest.approx((50 / 30, 70 / 30))
    assert ratio(60, (50, 70), 30, (0, 60)) is None


def test_difference_by_newcombes_example() -> None:
    # Newcombe (1998), table II, example (a): 56/70 against 48/80, method 10.
    assert difference((56, 70), (48, 80)) == pytest.approx((0.0524, 0.3339), abs=1e-4)
    assert difference((1, 2), (0, 0)) is None


def test_overlap() -> None:
    assert overlap((0, 2), (1, 3)) and overlap((1, 3), (0, 2)) and overlap((0, 9), (1, 2))
    assert not overlap((0, 1), (1.1, 2))


def test_band_by_hand() -> None:
    assert band_half_width(100) == pytest.approx(0.13581, abs=1e-5)
