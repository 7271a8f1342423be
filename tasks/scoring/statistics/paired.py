"""Paired comparison of two sides on the same tasks: the mean difference, its interval, and a
p-value.

In: each side's trials of each task, in the same order of tasks. Out: a `Comparison`, second minus
first.
"""

import math
from typing import NamedTuple

import numpy as np

from tutti.tasks.scoring.statistics.intervals import CONFIDENCE, Interval
from tutti.tasks.scoring.statistics.quantiles import (
    coin_tails,
    normal_quantile,
    t_quantile,
    t_tails,
)
from tutti.tasks.scoring.statistics.sample import (
    Array,
    Clusters,
    Groups,
    cluster_numbers,
    numbers,
    task_means,
)
from tutti.tasks.scoring.statistics.spread import Spread, spread

EXACT_UP_TO = 14  # differing tasks: 2^14 sign patterns take a millisecond
FEW_DIFFER = 10  # below this, and with most tasks equal, s is often too small
_DIGITS = 12  # of the largest score: thirds are not exact, and rounding alone is not a difference
MOST_DECIMALS = 300  # beyond it, 10 to their power is no float: such numbers are not rounded
_TIE = 1e-9  # relative to the largest possible sum: sums this close count as equally far from 0


class Comparison(NamedTuple):
    """The second side against the first, paired by task."""

    n: int
    """Tasks."""
    clusters: int
    first: float
    """Mean over tasks of the first side."""
    second: float
    difference: float
    """Second minus first."""
    low: float | None
    """Ends of the interval; None for fewer than two tasks or clusters."""
    high: float | None
    se: float | None
    df: float
    """Degrees of freedom of `se`."""
    p: float | None
    """Two-sided, for no difference."""
    test: str
    """exact McNemar, exact sign-flip, paired t-test; empty if there is no p."""


def compare_paired(
    first: Groups,
    second: Groups,
    clusters: Clusters | None = None,
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Compare two sides on the same tasks; repeats of a task are averaged first.

    Interval, first that applies:
    - all differences alike: there is no s, and a width of zero would claim certainty. At most
      1 - (1 - confidence)^(1/G) of the G clusters could differ ("rule of three"), each by at most
      the range of the scores, which is 1 or more;
    - right or wrong without repeats or clusters, or fewer than `FEW_DIFFER` tasks differ and more
      than half are alike: Wald's interval after adding one task that gains and one that loses as
      much as the most seen does (for right and wrong: Bonett and Price);
    - else difference ± t(df) se, clustered as in `spread`.
    p: exact McNemar for right and wrong, the exact sign-flip test for up to `EXACT_UP_TO` clusters
    that differ, else the paired t-test.
    Sources: Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial
    proportions based on paired data", Journal of Educational and Behavioral Statistics 37 (2012)
    479; Fagerland, Lydersen and Laake, Statistics in Medicine 33 (2014) 2850; Fisher, "The design
    of experiments", 1935, section 21. ValueError for no tasks, sides of different length, a task
    without trials, a score not finite, other than one label a task.
    """
    a, b = task_means(first, "first side"), task_means(second, "second side")
    if len(a) != len(b):
        raise ValueError(f"the sides have {len(a)} and {len(b)} tasks; pairs are needed")
    d = _rounded(b - a, float(np.abs([a, b]).max()))
    known = spread(d, clusters)
    low, high, p, test = None, None, None, ""
    if known.se is not None:
        span = max(1.0, float(max(a.max(), b.max()) - min(a.min(), b.min())))
        low, high = _interval(d, known, span, confidence)
        p, test = _tested(d, known, clusters)
    return Comparison(
        known.n, known.clusters, float(a.mean()), float(b.mean()), known.mean,
        low, high, known.se, known.df, p, test,
    )  # fmt: skip


def _interval(d: Array, known: Spread, span: float, confidence: float) -> Interval:
    if d.min() == d.max():
        share = 1 - (1 - confidence) ** (1 / known.clusters)
        return known.mean - share * (span + known.mean), known.mean + share * (span - known.mean)
    differ = int(np.count_nonzero(d))
    if known.clusters == known.n and (_is_coin(d) or (differ < FEW_DIFFER and 2 * differ < len(d))):
        return _with_one_each_way(d, confidence)
    assert known.se is not None, "the caller saw to it"
    half = t_quantile(0.5 + confidence / 2, known.df) * known.se
    return known.mean - half, known.mean + half


def _with_one_each_way(d: Array, confidence: float) -> Interval:
    most = float(np.abs(d).max())
    n = len(d) + 2
    mean = float(d.sum()) / n
    se = math.sqrt((float((d**2).sum()) + 2 * most**2) / n - mean**2) / math.sqrt(n)
    half = normal_quantile(0.5 + confidence / 2) * se
    return mean - half, mean + half


def _tested(d: Array, known: Spread, clusters: Clusters | None) -> tuple[float, str]:
    if known.clusters == known.n and _is_coin(d):
        gained, differ = int(np.count_nonzero(d > 0)), int(np.count_nonzero(d))
        return coin_tails(gained, differ), "exact McNemar"
    sums = np.bincount(cluster_numbers(clusters, len(d)), weights=d).astype(float)
    sums = _rounded(sums, float(np.abs(d).sum()))
    if np.count_nonzero(sums) <= EXACT_UP_TO:
        return sign_flip(sums), "exact sign-flip"
    if d.min() == d.max():
        ups = int(np.count_nonzero(sums > 0))
        return coin_tails(ups, len(sums)), "sign test"
    assert known.se, "the differences differ"
    return t_tails(known.mean / known.se, known.df), "paired t-test"


def _rounded(values: Array, largest: float) -> Array:
    """`values` to `_DIGITS` digits of `largest`, the size of the numbers that they are made of."""
    if largest == 0:
        return values
    decimals = _DIGITS - math.ceil(math.log10(largest))
    if decimals > MOST_DECIMALS:
        return values
    return np.round(values, decimals)


def _is_coin(d: Array) -> bool:
    return bool(np.isin(d, (-1.0, 0.0, 1.0)).all())


def sign_flip(differences: Array) -> float:
    """Two-sided exact p of the sign-flip test, over all 2^m signs.

    `differences`: one per task or cluster, shape (n,); m of them are not 0, at most `EXACT_UP_TO`
    (ValueError). p is the share of sign patterns whose sum is at least as far from 0 as the
    observed one; sums that differ only by rounding count as equal: 0.1 + 0.2 - 0.3 is 0. Source:
    Fisher, "The design of experiments", 1935, section 21.
    """
    values = numbers(differences, "differences")
    values = _rounded(values, float(np.abs(values).max(initial=0.0)))
    values = values[values != 0]
    m = len(values)
    if m > EXACT_UP_TO:
        raise ValueError(f"{m} differences: at most {EXACT_UP_TO} are flipped one by one")
    sums = np.zeros(1)
    for value in values:  # all sums, doubled with each difference
        sums = np.concatenate([sums + value, sums - value])
    seen = abs(float(values.sum()))
    return float(np.mean(np.abs(sums) >= seen - _TIE * float(np.abs(values).sum())))
