"""Means and ratios over tasks, with repeats and clusters: standard errors and intervals.

scipy is loaded on first use. `scipy.special` loads in a tenth of the time of `scipy.stats`.
"""

import math
from collections.abc import Hashable, Sequence
from importlib import import_module
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _special() -> Any:
    return import_module("scipy.special")


def t_quantile(share: float, df: float) -> float:
    """The quantile of Student's distribution with `df` degrees of freedom at `share`."""
    return float(_special().stdtrit(df, share))


def t_tails(t: float, df: float) -> float:
    """P(|T| >= |t|) under Student's distribution: the two-sided p of a t statistic."""
    return float(2 * _special().stdtr(df, -abs(t)))


def coin_tails(heads: int, tosses: int) -> float:
    """Two-sided p of `heads` in `tosses` of a fair coin; 1 for no tosses."""
    tail = float(_special().bdtr(min(heads, tosses - heads), tosses, 0.5))
    return min(1.0, 2 * tail) if tosses else 1.0


def noncentral_shift(power: float, critical: float, df: float) -> float:
    """The noncentrality at which a t statistic exceeds `critical` with probability `power`."""
    return float(_special().nctdtrinc(df, 1 - power, critical))


Interval = tuple[float, float]

CONFIDENCE = 0.95


def wilson(successes: float, n: float, confidence: float = CONFIDENCE) -> Interval | None:
    """Wilson's score interval of a proportion; None if `n` is 0.

    Assumes `n` independent trials; for clustered ones `n` is their effective number and need not be
    an integer. Source: Wilson, "Probable inference, the law of succession, and statistical
    inference", JASA 22 (1927) 209.
    """
    if n == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share, z2 = successes / n, z * z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(max(0.0, share * (1 - share)) / n + z2 / (4 * n * n))
    # At 0 and n successes the formula gives exactly 0 and 1, but its rounding does not.
    low = 0.0 if successes <= 0 else max(0.0, centre - half)
    return low, 1.0 if successes >= n else min(1.0, centre + half)


Array = NDArray[np.float64]
Groups = Sequence[Sequence[float]] | Array
"""Scores of tasks: one sequence of trials per task, or an array of tasks by trials."""
Clusters = Sequence[Hashable]  # one label per task, such as its document


def numbers(given: ArrayLike, what: str, least: int = 1) -> Array:
    """`given` as an array of at least `least` finite numbers. ValueError names `what` is wrong."""
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{what}: one number each is needed, not shape {values.shape}")
    if len(values) < least:
        raise ValueError(f"{what}: {len(values)} values, at least {least} are needed")
    if not np.isfinite(values).all():
        raise ValueError(f"{what}: value {int(np.argmin(np.isfinite(values)))} is not finite")
    return values


def task_means(groups: Groups, what: str = "tasks") -> Array:
    """The mean of each task's trials, shape (tasks,). ValueError for none, empty, or not finite."""
    if isinstance(groups, np.ndarray) and groups.ndim == 2 and groups.size:
        return numbers(groups.mean(axis=1), what)
    for place, group in enumerate(groups):
        if len(group) == 0:
            raise ValueError(f"{what}: task {place} has no trials")
    return numbers([float(np.mean(group)) for group in groups], what)


def cluster_numbers(clusters: Clusters | None, n: int) -> NDArray[np.intp]:
    """Labels as 0, 1, …, by first occurrence; without labels each task is its own cluster."""
    if clusters is None:
        return np.arange(n)
    if len(clusters) != n:
        raise ValueError(f"{len(clusters)} clusters for {n} tasks")
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(label, len(known)) for label in clusters], dtype=np.intp)


ROUNDING = 1e-12  # share of the largest value, also in `storage/sql/results.sql`


class Spread(NamedTuple):
    """A mean with its standard error."""

    mean: float
    se: float | None  # standard error; None for fewer than two clusters
    df: float  # degrees of freedom of `se`; 0 if there is none
    n: int  # tasks
    clusters: int  # equal to `n` if no tasks are clustered


def spread(values: ArrayLike, clusters: Clusters | None = None) -> Spread:
    """Mean of one value per task, shape (n,), with its error over tasks or clusters.

    The error is √(Σ_g S_g² / (1 - n_g/n)) / n with S_g the sum of the residuals of cluster g and
    n_g its tasks: "CR2", unbiased if tasks are independent; for single tasks s/√n. The degrees of
    freedom are Satterthwaite's, with the correlation inside clusters estimated from the data; G - 1
    for clusters of one size. Sources: Miller, "Adding error bars to evals", 2024; Bell and
    McCaffrey, "Bias reduction in standard errors for linear regression with multi-stage samples",
    Survey Methodology 28 (2002) 169; Imbens and Kolesár, "Robust standard errors in small samples",
    Review of Economics and Statistics 98 (2016) 701. ValueError for no values, a value that is not
    finite, or other than n labels.
    """
    x = numbers(values, "values")
    labels = cluster_numbers(clusters, len(x))
    n, sizes = len(x), np.bincount(labels).astype(float)
    mean = math.fsum(x) / n
    g = len(sizes)
    if g < 2:
        return Spread(mean, None, 0.0, n, g)
    sums = np.bincount(labels, weights=x - mean).astype(float)
    sums[np.abs(sums) <= ROUNDING * sizes * np.abs(x).max()] = 0.0
    se = math.sqrt(float(np.sum(sums**2 / (1 - sizes / n)))) / n
    equal = bool((sizes == sizes[0]).all())
    df = g - 1.0 if equal else _satterthwaite(sizes, _alike(x, sums, sizes))
    return Spread(mean, se, df, n, g)


def _alike(x: Array, sums: Array, sizes: Array) -> float:
    """Intraclass correlation within clusters, 0 to 1, by analysis of variance."""
    n, g = len(x), len(sizes)
    if n == g:
        return 0.0
    between = float(np.sum(sums**2 / sizes))
    within = max(0.0, float(np.sum((x - x.mean()) ** 2)) - between) / (n - g)
    between /= g - 1
    typical = (n - float(np.sum(sizes**2)) / n) / (g - 1)
    total = between + (typical - 1) * within
    return min(1.0, max(0.0, (between - within) / total)) if total > 0 else 0.0


def _satterthwaite(sizes: Array, alike: float) -> float:
    """(tr AV)² / tr(AVAV) of the quadratic form T'AT in cluster totals T with variances V.

    A = (I - 1s')C(I - s1') with s = n_g/n and C = diag(1/(1 - s)), written out.
    """
    share = sizes / sizes.sum()
    c = 1 / (1 - share)
    v = sizes * (1 + alike * (sizes - 1))
    u, k = c * share, float(np.sum(c * share**2))
    v0, v1, v2 = float(np.sum(v)), float(np.sum(u * v)), float(np.sum(u**2 * v))
    trace = float(np.sum(c * v)) - 2 * v1 + k * v0
    squares = (
        float(np.sum(c**2 * v**2 + 2 * c * v**2 * (k - 2 * u)))
        + (k * v0) ** 2
        - 4 * k * v0 * v1
        + 2 * v0 * v2
        + 2 * v1**2
    )
    return trace**2 / squares


_ROUNDING = 1e-9


class MeanEstimate(NamedTuple):
    """A mean over tasks with its interval."""

    value: float
    low: float | None
    """Ends of the interval; None for one task or cluster, unless its score is 0 to 1."""
    high: float | None
    se: float | None  # None for one task or cluster
    n: int  # tasks
    clusters: int


def mean_interval(
    groups: Groups, clusters: Clusters | None = None, confidence: float = CONFIDENCE
) -> MeanEstimate:
    """Mean of the tasks' means, with an interval for the population of tasks.

    Trials of a task are averaged first. Scores of 0 to 1 have Wilson's interval, at the number of
    independent tasks that would have the error found (n / design effect), reduced by (z / t(df))²
    if the error is estimated from few clusters. With repeats, the design effect is computed as if
    half a task more had been asked once, because few tasks nearly all right or all wrong show too
    little of it (measured, not derived). Other scores have mean ± t(df) se. If no two tasks differ,
    or there is one cluster alone, each cluster counts as one task. Sources: Wilson (1927); Korn and
    Graubard, "Confidence intervals for proportions with small expected number of positive counts",
    Survey Methodology 24 (1998) 193; Dean and Pagano, "Evaluating confidence interval methods for
    binomial proportions in clustered surveys", Journal of Survey Statistics and Methodology 3
    (2015) 484. ValueError for no tasks, a task without trials, a score that is not finite, or other
    than one label per task.
    """
    values = task_means(groups)
    known = spread(values, clusters)
    low: float | None
    high: float | None
    if values.min() >= 0 and values.max() <= 1:
        scores = np.concatenate([np.asarray(group) for group in groups])
        low, high = _score_interval(known, bool(np.isin(scores, (0.0, 1.0)).all()), confidence)
    elif known.se is None:
        low, high = None, None
    else:
        half = t_quantile(0.5 + confidence / 2, known.df) * known.se
        low, high = known.mean - half, known.mean + half
    return MeanEstimate(known.mean, low, high, known.se, known.n, known.clusters)


def _score_interval(known: Spread, coins: bool, confidence: float) -> Interval:
    share, n, alone = known.mean, known.n, known.clusters == known.n
    worth = float(known.clusters)  # independent tasks
    if known.se:
        effect = (n - 1) * known.se**2 / (share * (1 - share))
        if coins and alone:
            effect += (1 - effect) / (2 * n)
        worth = n / effect
        if not (coins and alone and abs(effect - 1) < _ROUNDING):
            z = NormalDist().inv_cdf(0.5 + confidence / 2)
            worth *= (z / t_quantile(0.5 + confidence / 2, known.df)) ** 2
    found = wilson(share * worth, worth, confidence)
    assert found is not None, f"no tasks: {known}"
    return found


DRAWS = 2000
MIN_CLUSTERS = 5  # below this, most resamples repeat one another, and no tail can be estimated


def bootstrap_mean(
    values: ArrayLike,
    clusters: Clusters | None = None,
    confidence: float = CONFIDENCE,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval | None:
    """Interval of the mean of one value per task, shape (n,), by resampling whole clusters.

    Each resample gives t* = (mean* - mean) / se*; the interval is mean - t*(1 - a/2) se to mean -
    t*(a/2) se. It follows the skew. None for fewer than `MIN_CLUSTERS` clusters or if all are
    equal. Source: Efron, "Better bootstrap confidence intervals", JASA 82 (1987) 171; Hall, "The
    bootstrap and Edgeworth expansion", 1992, chapter 3. ValueError as `spread`.
    """
    x = numbers(values, "values")
    known = spread(x, clusters)
    if known.clusters < MIN_CLUSTERS or not known.se:
        return None
    labels = cluster_numbers(clusters, known.n)
    sizes = np.bincount(labels).astype(float)
    sums = np.bincount(labels, weights=x).astype(float)
    g = len(sums)
    picks = np.random.default_rng(seed).integers(0, g, (draws, g))
    drawn_sums, drawn_sizes = sums[picks], sizes[picks]
    n = drawn_sizes.sum(axis=1)
    means = drawn_sums.sum(axis=1) / n
    residuals = drawn_sums - drawn_sizes * means[:, None]
    errors = np.sqrt((residuals**2 / (1 - drawn_sizes / n[:, None])).sum(axis=1)) / n
    there = errors > 1e-12 * (1 + np.abs(means))
    ratios = (means[there] - known.mean) / errors[there]
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return known.mean - float(high) * known.se, known.mean - float(low) * known.se


class Ratio(NamedTuple):
    """A ratio of two sums with its interval."""

    value: float | None  # None if the denominator is 0
    low: float | None
    """Ends of the interval; None if the denominator is not significantly different from 0, or for
    fewer than two tasks."""
    high: float | None
    n: int


def ratio_of_sums(
    top: ArrayLike,
    bottom: ArrayLike,
    clusters: Clusters | None = None,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """Σ top / Σ bottom over tasks, each shape (n,): cost over solved tasks is cost per solved task.

    Fieller's interval: every R for which the mean of top - R bottom does not differ from 0 at this
    confidence, by its clustered error and t(df). There is none if the mean of bottom does not
    differ from 0. Source: Fieller, "Some problems in interval estimation", JRSS B 16 (1954) 175;
    Cochran, "Sampling techniques", 1977, section 6.3. ValueError as `spread`, and for sides of
    different length.
    """
    y, x = numbers(top, "top"), numbers(bottom, "bottom")
    if len(y) != len(x):
        raise ValueError(f"top has {len(y)} values, bottom {len(x)}")
    total = float(x.sum())
    if total == 0:
        return Ratio(None, None, None, len(y))
    value = float(y.sum()) / total
    of_x, of_y, of_both = (spread(each, clusters) for each in (x, y, x + y))
    if of_x.se is None or of_y.se is None or of_both.se is None:
        return Ratio(value, None, None, len(y))
    covariance = (of_both.se**2 - of_x.se**2 - of_y.se**2) / 2
    # Degrees of freedom of the residuals top - R bottom at the estimate.
    t2 = t_quantile(0.5 + confidence / 2, spread(y - value * x, clusters).df) ** 2
    a = of_x.mean**2 - t2 * of_x.se**2
    b = of_x.mean * of_y.mean - t2 * covariance
    c = of_y.mean**2 - t2 * of_y.se**2
    if a <= 0:
        return Ratio(value, None, None, len(y))
    # below 0 by rounding alone: the estimate is inside the interval
    root = math.sqrt(max(0.0, b * b - a * c))
    return Ratio(value, (b - root) / a, (b + root) / a, len(y))
