"""The standard error of a mean over tasks, plain or clustered, with its degrees of freedom."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tutti.tasks.scoring.statistics.sample import Array, Clusters, cluster_numbers, numbers

ROUNDING = 1e-12
"""A deviation of this share of the largest value is none: `storage/sql/results.sql` has it, too."""


class Spread(NamedTuple):
    """A mean with its standard error."""

    mean: float
    se: float | None
    """Standard error; None for fewer than two clusters."""
    df: float
    """Degrees of freedom of `se`; 0 if there is none."""
    n: int
    """Tasks."""
    clusters: int
    """Equal to `n` if no tasks are clustered."""


def spread(values: ArrayLike, clusters: Clusters | None = None) -> Spread:
    """Mean of one value per task, shape (n,), with its error over tasks or clusters.

    The error is √(Σ_g S_g² / (1 - n_g/n)) / n with S_g the sum of the residuals of cluster g and
    n_g its tasks: "CR2", unbiased if tasks are independent, however unequal the clusters. For
    clusters of one size it is √(G/(G-1) Σ S_g²) / n, and for single tasks s/√n. The degrees of
    freedom are Satterthwaite's for that sum of squares, with the correlation inside clusters
    estimated from the data; G - 1 for clusters of one size. Sources: Miller, "Adding error bars to
    evals", 2024; Bell and McCaffrey, "Bias reduction in standard errors for linear regression with
    multi-stage samples", Survey Methodology 28 (2002) 169; Imbens and Kolesár, "Robust standard
    errors in small samples", Review of Economics and Statistics 98 (2016) 701. ValueError for no
    values, a value that is not finite, or other than n labels.
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

    A = (I - 1s')C(I - s1') with s = n_g/n and C = diag(1/(1 - s)); written out, so that it is
    linear in the clusters.
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
