"""Batch means: intervals of rates and latencies of autocorrelated series."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tutti.tasks.scoring.statistics.means import CONFIDENCE, Array, numbers, t_quantile

BATCHES = 10
"""Always ten batches. More batches may be shorter than the autocorrelation of the load; between 10
and 30 batches the interval hardly gets narrower (Schmeiser, 1982)."""
MIN_PER_BATCH = 5  # below this, a batch's count is far from normal
MOST_CORRELATED = 0.8  # beyond it, the correction would amplify noise


class BatchInterval(NamedTuple):
    """A figure of a whole series, with an interval from the figures of its batches."""

    value: float
    low: float
    high: float
    correlation: float
    """Of neighbouring batches, 0 to `MOST_CORRELATED`; above 0.4 the interval is too narrow."""


def batch_interval(
    series: ArrayLike,
    of: Callable[[Array], float] = lambda values: float(values.mean()),
    confidence: float = CONFIDENCE,
) -> BatchInterval:
    """A figure `of` the whole series, shape (n,) in order of time, with an interval from batches.

    The error is t(b - 1) s/√b over `BATCHES` equal batches, times √((1 + r)/(1 - r)) with r the
    correlation of neighbouring batches if positive (1/b added, because it is biased downwards by
    that much). The remainder counts in no batch. Sources: Law, "Simulation modeling and analysis",
    chapter 9; Schmeiser, "Batch size effects in the analysis of simulation output", Operations
    Research 30 (1982) 556; for the correction Tafazzoli and Wilson, "Skart", IIE Transactions 43
    (2011) 110; Asmussen and Glynn, "Stochastic simulation", 2007, section III.5. ValueError for
    fewer than two values a batch, or a value that is not finite.
    """
    values = numbers(series, "series", 2 * BATCHES)
    size = len(values) // BATCHES
    batches = np.array([of(batch) for batch in values[: size * BATCHES].reshape(BATCHES, size)])
    off = batches - batches.mean()
    squares = float((off**2).sum())
    together = float((off[1:] * off[:-1]).sum()) / squares + 1 / BATCHES if squares > 0 else 0.0
    r = min(MOST_CORRELATED, max(0.0, together))
    s = math.sqrt(squares / (BATCHES - 1))
    half = t_quantile(0.5 + confidence / 2, BATCHES - 1) * s / math.sqrt(BATCHES)
    half *= math.sqrt((1 + r) / (1 - r))
    value = of(values)
    return BatchInterval(value, value - half, value + half, r)


class Goodput(NamedTuple):
    """Tasks solved within a latency limit, per engine-hour."""

    per_engine_hour: float
    low: float | None  # ends of the interval; None if the window has too few such tasks for batches
    high: float | None
    tasks: int  # number of tasks solved in time in the window


def goodput(
    tasks: tuple[ArrayLike, ArrayLike, ArrayLike],
    limit_s: float,
    start_s: float,
    end_s: float,
    engines: int = 1,
) -> Goodput:
    """Tasks solved within `limit_s` that ended in [start_s, end_s), per engine and hour.

    `tasks`: columns of shape (n,): when each ended (s), whether it was solved (above 0), and its
    latency (s). Source: goodput as in Zhong et al., "DistServe", 2024, with solved tasks in place
    of requests; interval by `batch_interval` of their counts, None for fewer than `MIN_PER_BATCH`
    of them a batch. ValueError for values that are not finite, unequal lengths, an empty window, no
    engine.
    """
    ends, right, took = (numbers(column, "tasks", least=0) for column in tasks)
    if not len(ends) == len(right) == len(took):
        raise ValueError(f"{len(ends)} ends, {len(right)} solved, {len(took)} latencies")
    if end_s <= start_s or engines < 1:
        raise ValueError(f"an empty window or no engine: {start_s} to {end_s}, {engines}")
    good = ends[(right > 0) & (took <= limit_s) & (ends >= start_s) & (ends < end_s)]
    per_hour = 3600 / (end_s - start_s) / engines
    low, high = None, None
    if len(good) >= BATCHES * MIN_PER_BATCH:
        counts, _ = np.histogram(good, bins=2 * BATCHES, range=(start_s, end_s))
        found = batch_interval(counts * (per_hour * len(counts)))
        low, high = max(0.0, found.low), found.high
    return Goodput(len(good) * per_hour, low, high, len(good))
