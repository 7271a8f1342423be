"""Ratios of two sums over the same tasks: cost, energy or seconds per solved task."""

import math
from typing import NamedTuple

from numpy.typing import ArrayLike

from tutti.tasks.scoring.statistics.intervals import CONFIDENCE
from tutti.tasks.scoring.statistics.quantiles import t_quantile
from tutti.tasks.scoring.statistics.sample import Clusters, numbers
from tutti.tasks.scoring.statistics.spread import spread


class Ratio(NamedTuple):
    """A ratio of two sums with its interval."""

    value: float | None
    """None if the denominator is 0."""
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
    confidence, by its clustered error and t(df). It is asymmetric, and has no upper end if the mean
    of bottom does not differ from 0; then there is no interval. Source: Fieller, "Some problems in
    interval estimation", JRSS B 16 (1954) 175; Cochran, "Sampling techniques", 1977, section 6.3.
    ValueError for no tasks, sides of different length, a value that is not finite, or a number of
    labels other than one per task.
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
