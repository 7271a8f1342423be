"""Intervals from a cell's aggregates: rates, means, ratios.

In: counts and numbers that SQL summed up. Out: (low, high) at 95 %, or None where the data cannot
give one. What works on whole samples is in `tutti.tasks.scoring.statistics`.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING

from tutti.tasks.scoring.statistics import CONFIDENCE, Interval, batch_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
BINS = 20  # of a window: two for each of `batch_interval`'s ten batches
MIN_STEPS = 50  # five a batch: below this a batch's count is far from normal
TAIL = 0.95  # the quantile of step latency whose interval is given
MIN_TAIL_STEPS = 200  # twenty a batch: fewer have no 95th percentile of their own


def both(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else (low, high)


def t_interval(values: Sequence[float]) -> Interval | None:
    """`mean_interval` of the values themselves; None for fewer than two."""
    return mean_interval(fmean(values), stdev(values), len(values)) if len(values) > 1 else None


def mean_interval(mean: float, deviation: float, n: int) -> Interval | None:
    """Student's t-interval of a mean: mean ± t(n - 1) s / √n; None for fewer than two values.

    Source: Student, "The probable error of a mean", Biometrika 6 (1908) 1.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

    if n < 2:
        return None
    half = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * deviation / math.sqrt(n)
    return mean - half, mean + half


def rate_per_min(counts: Sequence[int], seconds: float) -> Interval | None:
    """Interval of events per minute from `counts` in BINS equal bins of `seconds` in all.

    Uses batch means, because neighbouring steps are dependent. None if the window is too short:
    fewer than MIN_STEPS events.
    """
    if seconds <= 0 or sum(counts) < MIN_STEPS:
        return None
    found = batch_interval([count * 60 * len(counts) / seconds for count in counts])
    return max(0.0, found.low), found.high


def tail_interval(latencies_s: "NDArray[np.float64]") -> Interval | None:
    """Interval of the TAIL quantile of latencies in order of time, shape (steps,), by sectioning.

    None for fewer than MIN_TAIL_STEPS.
    """
    import numpy as np

    if len(latencies_s) < MIN_TAIL_STEPS:
        return None
    found = batch_interval(latencies_s, lambda batch: float(np.quantile(batch, TAIL)))
    return max(0.0, found.low), found.high


def from_interval(estimate: float, interval: Interval, at: float) -> tuple[float, Interval]:
    """Return (p of no effect, interval at confidence `at`) of a ratio, by its 95 % `interval`.

    Assumes a normal distribution on the log scale with the interval's spread. Raises ValueError if
    the interval reaches 0.
    """
    low, high = interval
    if low <= 0:
        raise ValueError(f"a ratio's interval from {low}")
    spread = (math.log(high) - math.log(low)) / (2 * Z)
    half = NormalDist().inv_cdf(0.5 + at / 2) * spread
    p = 2 * NormalDist().cdf(-abs(math.log(estimate)) / spread) if spread else float(estimate == 1)
    return p, (estimate * math.exp(-half), estimate * math.exp(half))


def ratio(top: float, of_top: Interval, bottom: float, of_bottom: Interval) -> Interval | None:
    """Interval of top / bottom from each one's interval; None if the bottom's reaches 0.

    Source: Donner and Zou, "Closed-form confidence intervals for functions of the normal mean and
    standard deviation", Statistical Methods in Medical Research 21 (2012) 347 (MOVER for a ratio of
    independent estimates).
    """
    (low1, high1), (low2, high2) = of_top, of_bottom
    if low2 <= 0:
        return None
    product = top * bottom
    below = product**2 - low1 * high2 * (2 * top - low1) * (2 * bottom - high2)
    above = product**2 - high1 * low2 * (2 * top - high1) * (2 * bottom - low2)
    if 2 * bottom - high2 <= 0 or below < 0 or above < 0:
        return None
    low = (product - math.sqrt(below)) / (high2 * (2 * bottom - high2))
    return low, (product + math.sqrt(above)) / (low2 * (2 * bottom - low2))
