"""Comparisons of two sides on the same tasks: the mean difference, its interval, a p-value; a
verdict over many comparisons; the power of a planned one; when to stop a running one.

A `Comparison` takes each side's trials of each task, in the same order of tasks; second minus
first.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from tutti.tasks.scoring.statistics.means import (
    CONFIDENCE,
    Array,
    Clusters,
    Groups,
    Interval,
    Spread,
    cluster_numbers,
    coin_tails,
    noncentral_shift,
    numbers,
    spread,
    t_quantile,
    t_tails,
    task_means,
)

EXACT_UP_TO = 14  # differing tasks: 2^14 sign patterns take a millisecond
FEW_DIFFER = 10  # below this, and with most tasks equal, s is often too small
_DIGITS = 12  # of the largest score: thirds are not exact, and rounding alone is not a difference
MOST_DECIMALS = 300  # beyond it, 10 to their power is no float: such numbers are not rounded
_TIE = 1e-9  # relative to the largest possible sum: sums this close count as equally far from 0


class Comparison(NamedTuple):
    """The second side against the first, paired by task."""

    n: int  # tasks
    clusters: int
    first: float  # mean over tasks of the first side
    second: float
    difference: float  # second minus first
    low: float | None  # ends of the interval; None for fewer than two tasks or clusters
    high: float | None
    se: float | None
    df: float  # degrees of freedom of `se`
    p: float | None  # two-sided, for no difference
    test: str  # exact McNemar, exact sign-flip, paired t-test; empty if there is no p


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
        most, n = float(np.abs(d).max()), len(d) + 2  # one more task each way
        mean = float(d.sum()) / n
        se = math.sqrt((float((d**2).sum()) + 2 * most**2) / n - mean**2) / math.sqrt(n)
        half = NormalDist().inv_cdf(0.5 + confidence / 2) * se
        return mean - half, mean + half
    assert known.se is not None, "there are two clusters or more"
    half = t_quantile(0.5 + confidence / 2, known.df) * known.se
    return known.mean - half, known.mean + half


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
    """`values` rounded to `_DIGITS` digits of `largest`, the size of the numbers behind them."""
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
    observed one, apart from rounding. Source: Fisher, "The design of experiments", 1935, section
    21.
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


Word = Literal["better", "worse", "same", "inconclusive"]
MOST_LOST = 0.1  # the share of unscored samples above which a side's scores support no verdict


class Finding(NamedTuple):
    """A difference to be judged: second minus first, or any figure that is 0 under no effect."""

    difference: float
    interval: Interval | None  # at `CONFIDENCE`
    simultaneous: Interval | None
    """At 1 - (1 - `CONFIDENCE`) / comparisons: decides `same` for several comparisons at once."""
    p: float | None


class Verdict(NamedTuple):
    """One word and its reason."""

    word: Word
    reason: str
    p_holm: float | None  # p, adjusted over all comparisons judged together


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p of each comparison; controls the family-wise error rate.

    The i-th smallest of m is multiplied by m - i + 1, and is no smaller than those before it. None
    (no test available) stays None and does not count in m. Source: Holm, "A simple sequentially
    rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979) 65. ValueError
    for p outside 0 to 1 or not a number.
    """
    there = [(place, p) for place, p in enumerate(ps) if p is not None]
    if any(not 0 <= p <= 1 for _, p in there):
        raise ValueError(f"p is between 0 and 1: {[p for _, p in there]}")
    adjusted: list[float | None] = [None] * len(ps)
    most = 0.0
    for rank, (place, p) in enumerate(sorted(there, key=lambda each: each[1])):
        most = max(most, min(1.0, (len(there) - rank) * p))
        adjusted[place] = most
    return adjusted


def simultaneous_confidence(comparisons: int) -> float:
    """Bonferroni's confidence level, at which all intervals hold together at `CONFIDENCE`."""
    if comparisons < 1:
        raise ValueError("no comparisons")
    return 1 - (1 - CONFIDENCE) / comparisons


def judge(
    findings: Sequence[Finding], margin: float, higher_is_better: bool = True
) -> list[Verdict]:
    """A verdict for each, in order; all are taken as one family.

    - better, worse: the interval excludes 0 and Holm's p is below 1 - `CONFIDENCE`;
    - same: the simultaneous interval lies within ± `margin`. Its two ends are the two one-sided
      tests of Schuirmann (1987), each at half of what 1 - `CONFIDENCE` leaves a comparison;
    - inconclusive: the rest. A significant difference is named even if it is within the margin.
    ValueError for a margin below 0.
    """
    if not margin >= 0:
        raise ValueError(f"the margin is 0 or more, not {margin}")
    adjusted = holm([found.p for found in findings])
    family = sum(found.p is not None for found in findings)
    good = 1 if higher_is_better else -1
    pairs = zip(findings, adjusted, strict=True)
    return [_judged(found, p, margin, good, family) for found, p in pairs]


def _judged(found: Finding, p: float | None, margin: float, good: int, family: int) -> Verdict:
    """`p` is adjusted over `family` comparisons; `good` is the sign of a better difference."""
    if found.interval is None or p is None:
        return Verdict("inconclusive", "too few tasks for an interval", p)
    low, high = found.interval
    excludes = low > 0 or high < 0
    if excludes and p < 1 - CONFIDENCE:
        word: Word = "better" if found.difference * good > 0 else "worse"
        return Verdict(word, f"the interval excludes 0 and Holm's p is {p:.2g}", p)
    wide = found.simultaneous
    if wide is not None and -margin <= wide[0] and wide[1] <= margin:
        return Verdict("same", f"the interval lies within ±{margin:g}", p)
    if excludes:
        reason = (
            f"the interval of this one comparison excludes 0, but over all {family} compared "
            f"together p is {p:.2g} (Holm)"
        )
        return Verdict("inconclusive", reason, p)
    return Verdict("inconclusive", f"the interval holds 0 and reaches beyond ±{margin:g}", p)


POWER = 0.8
ALIKE = 0.5  # assumed correlation of two trials of one task


def minimum_detectable(
    n: int, sd: float, confidence: float = CONFIDENCE, power: float = POWER
) -> float:
    """The smallest true difference that a paired t-test of `n` tasks detects at this `power`.

    `sd`: of the differences by task, in the score's unit; the result has that unit too. Solved with
    the noncentral t, neglecting the far tail. Source: Cohen, "Statistical power analysis", 1988;
    Bloom, "Minimum detectable effects", Evaluation Review 19 (1995) 547. ValueError for n < 2, sd <
    0, shares outside 0 to 1.
    """
    if n < 2 or not 0 <= sd < math.inf:
        raise ValueError(f"two tasks and a finite spread are needed, not {n} and {sd}")
    if not (0 < confidence < 1 and 0 < power < 1):
        raise ValueError(f"confidence and power are between 0 and 1, not {confidence} and {power}")
    critical = t_quantile(0.5 + confidence / 2, n - 1)
    return noncentral_shift(power, critical, n - 1) * sd / math.sqrt(n)


def expected_sd(accuracy: float, trials: int = 1, alike: float = ALIKE) -> float:
    """Expected standard deviation of differences by task between two sides of about this accuracy.

    √(2 p (1 - p) (1 - alike) / trials): both sides find the same tasks hard, and the share `alike`
    of the variance lies between tasks; a lower bound. Source: Miller, "Adding error bars to evals",
    2024, section 4. ValueError for shares outside 0 to 1, no trials.
    """
    if not (0 <= accuracy <= 1 and 0 <= alike <= 1) or trials < 1:
        raise ValueError(f"not shares and trials: {accuracy}, {alike}, {trials}")
    return math.sqrt(2 * accuracy * (1 - accuracy) * (1 - alike) / trials)


STEPS = 200  # of a difference of 1: interval ends are rounded outwards to half of this
CANDIDATES = np.arange(-STEPS, STEPS + 1) / STEPS
BET_AT_MOST = 0.5  # of the remaining capital, on each side, so that no task can lose it all


class InterimResult(NamedTuple):
    """The result after some of the tasks."""

    n: int
    low: float  # ends of the interval after `n` tasks; all intervals hold simultaneously
    high: float
    verdict: Word | None  # None: continue


class ConfidenceSequence:
    """A confidence sequence by betting, which takes one difference at a time, in constant time.

    After each difference there is an interval; all hold simultaneously, so that one may stop at any
    time. Differences are second minus first by task, each -1 to 1, repeats averaged, in random
    order of tasks; `planned`: the most tasks, for which the bets are tuned. For each candidate
    mean, one gambler bets that the next difference is above it and another that it is below, at
    stakes fixed in advance. If the candidate is true, no gambler gains on average, so the
    probability that either ever multiplies the stake 2 / (1 - confidence) times is at most 1 -
    confidence (Ville). Candidates for which a gambler did so are excluded. Source: Waudby-Smith and
    Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86 (2024) 1.

    The verdict: better or worse: the interval excludes 0 (or has it as an end); same: it lies
    within ± margin; inconclusive: none of these after `planned` tasks; None: go on.
    """

    def __init__(self, planned: int, margin: float = 0.0, confidence: float = CONFIDENCE) -> None:
        """ValueError for planned < 1, a margin below 0."""
        if planned < 1:
            raise ValueError(f"planned is at least 1, not {planned}")
        if not margin >= 0:
            raise ValueError(f"the margin is 0 or more, not {margin}")
        self._planned, self._margin = planned, margin
        self._rich = math.log(2 / (1 - confidence))
        self._m = (CANDIDATES + 1) / 2  # the formulas are for 0 to 1
        with np.errstate(divide="ignore"):
            self._most_above, self._most_below = BET_AT_MOST / self._m, BET_AT_MOST / (1 - self._m)
        self._above, self._below = np.zeros(len(CANDIDATES)), np.zeros(len(CANDIDATES))  # logs
        self._n, self._sum, self._squares = 0, 0.5, 0.25
        self._low, self._high = 0, len(CANDIDATES) - 1

    def add(self, difference: float) -> InterimResult:
        """Add a difference and return the result. ValueError for one outside -1 to 1."""
        if not -1 <= difference <= 1:
            raise ValueError(f"differences lie in -1 to 1, not at {difference}")
        x = (difference + 1) / 2
        # The stake is fixed before x is known.
        variance = self._squares / (self._n + 1)
        stake = math.sqrt(2 * self._rich / (self._planned * variance))
        self._n += 1
        self._sum += x
        self._squares += (x - self._sum / (self._n + 1)) ** 2
        off = x - self._m
        self._above += np.log1p(np.minimum(stake, self._most_above) * off)
        self._below += np.log1p(-np.minimum(stake, self._most_below) * off)
        # Excluded candidates are below all others, and stay excluded.
        too_low = int(np.count_nonzero(self._above >= self._rich))
        too_high = int(np.count_nonzero(self._below >= self._rich))
        self._low = max(self._low, too_low - 1)
        self._high = min(self._high, len(CANDIDATES) - too_high)
        low, high = float(CANDIDATES[self._low]), float(CANDIDATES[self._high])
        return InterimResult(self._n, low, high, self._word(low, high))

    def _word(self, low: float, high: float) -> Word | None:
        if low >= 0:
            return "better"
        if high <= 0:
            return "worse"
        if -self._margin <= low and high <= self._margin:
            return "same"
        return "inconclusive" if self._n >= self._planned else None
