"""The studentised bootstrap of a mean: for skewed figures such as costs, seconds and tokens."""

import numpy as np
from numpy.typing import ArrayLike

from tutti.tasks.scoring.statistics.intervals import CONFIDENCE, Interval
from tutti.tasks.scoring.statistics.sample import Array, Clusters, cluster_numbers, numbers
from tutti.tasks.scoring.statistics.spread import spread

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
    t*(a/2) se. It follows the skew, whereas percentiles of mean* alone are too narrow for few
    clusters. None for fewer than `MIN_CLUSTERS` clusters or if all are equal. Resamples of equal
    clusters have no se* and are left out. Source: Efron, "Better bootstrap confidence intervals",
    JASA 82 (1987) 171; Hall, "The bootstrap and Edgeworth expansion", 1992, chapter 3. ValueError
    as `spread`.
    """
    x = numbers(values, "values")
    known = spread(x, clusters)
    if known.clusters < MIN_CLUSTERS or not known.se:
        return None
    labels = cluster_numbers(clusters, known.n)
    sizes = np.bincount(labels).astype(float)
    sums = np.bincount(labels, weights=x).astype(float)
    ratios = _studentised(sums, sizes, known.mean, draws, seed)
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return known.mean - float(high) * known.se, known.mean - float(low) * known.se


def _studentised(sums: Array, sizes: Array, mean: float, draws: int, seed: int) -> Array:
    """t* of every resample, shape (draws,)."""
    g = len(sums)
    picks = np.random.default_rng(seed).integers(0, g, (draws, g))
    drawn_sums, drawn_sizes = sums[picks], sizes[picks]
    n = drawn_sizes.sum(axis=1)
    means = drawn_sums.sum(axis=1) / n
    residuals = drawn_sums - drawn_sizes * means[:, None]
    errors = np.sqrt((residuals**2 / (1 - drawn_sizes / n[:, None])).sum(axis=1)) / n
    there = errors > 1e-12 * (1 + np.abs(means))
    found: Array = (means[there] - mean) / errors[there]
    return found
