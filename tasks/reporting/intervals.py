"""Intervals by formula: proportions, means of a few values, ratios, distribution bands.

In: counts and numbers. Out: (low, high) at 95 %, or None where the data cannot give one.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

Interval = tuple[float, float]

CONFIDENCE = 0.95
Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
BATCHES = 8  # few enough that a batch outlasts the load's correlation, enough for a t-interval
MIN_STEPS_PER_BATCH = 5  # below this a batch's count is far from normal


def wilson(successes: int, n: int) -> Interval | None:
    """Wilson's score interval of a proportion; None when `n` is 0.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22
    (1927) 209. Takes the `n` trials as independent.
    """
    if n == 0:
        return None
    share, z2 = successes / n, Z * Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At 0 and n successes the formula gives exactly 0 and 1; rounding must not leave that range.
    return max(0.0, centre - half), min(1.0, centre + half)


def t_interval(values: Sequence[float]) -> Interval | None:
    """Student's t-interval of the mean: mean ± t(n - 1) s / √n; None for fewer than two values.

    Source: Student, "The probable error of a mean", Biometrika 6 (1908) 1.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

    n = len(values)
    if n < 2:
        return None
    half = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * stdev(values) / math.sqrt(n)
    return fmean(values) - half, fmean(values) + half


def rate_per_min(ends_s: Sequence[float], start_s: float, end_s: float) -> Interval | None:
    """Interval of events per minute in [start_s, end_s) by batch means over equal batches.

    Neighbouring steps depend on each other; batches long against that dependence hardly do. None
    where the window is too short: fewer than MIN_STEPS_PER_BATCH events a batch on average.
    Source: batch means as in Law, "Simulation Modeling and Analysis", chapter 9.
    """
    if end_s <= start_s or len(ends_s) < BATCHES * MIN_STEPS_PER_BATCH:
        return None
    batch_s = (end_s - start_s) / BATCHES
    counts = [0] * BATCHES
    for second in ends_s:
        counts[min(BATCHES - 1, max(0, int((second - start_s) / batch_s)))] += 1
    interval = t_interval([count * 60 / batch_s for count in counts])
    return interval and (max(0.0, interval[0]), interval[1])


def ratio(top: float, of_top: Interval, bottom: float, of_bottom: Interval) -> Interval | None:
    """Interval of top / bottom from each one's interval; None where the bottom's reaches 0.

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


def difference(first: tuple[int, int], second: tuple[int, int]) -> Interval | None:
    """Interval of a difference of two independent shares, each (successes, n).

    Source: Newcombe, "Interval estimation for the difference between independent proportions",
    Statistics in Medicine 17 (1998) 873, method 10 (from Wilson's limits). None when an n is 0.
    """
    of_first, of_second = wilson(*first), wilson(*second)
    if of_first is None or of_second is None:
        return None
    p1, p2 = first[0] / first[1], second[0] / second[1]
    below = math.hypot(p1 - of_first[0], of_second[1] - p2)
    return p1 - p2 - below, p1 - p2 + math.hypot(of_first[1] - p1, p2 - of_second[0])


def overlap(first: Interval, second: Interval) -> bool:
    """Whether two intervals share a point."""
    return first[0] <= second[1] and second[0] <= first[1]


def band_half_width(n: int) -> float:
    """Half width of the band that holds a whole distribution function, from `n` > 0 values.

    Source: Dvoretzky, Kiefer and Wolfowitz (1956) with Massart's constant, Annals of Probability 18
    (1990) 1269: √(ln(2 / 0.05) / 2n).
    """
    return math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * n))
