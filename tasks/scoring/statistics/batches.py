"""Batch means: intervals of rates and latencies whose neighbouring values depend on each other."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tutti.tasks.scoring.statistics.intervals import CONFIDENCE
from tutti.tasks.scoring.statistics.quantiles import t_quantile
from tutti.tasks.scoring.statistics.sample import Array, numbers

BATCHES = 10
"""The rule: ten, whatever the length. More batches make a batch shorter than the load's own memory;
between 10 and 30 the interval hardly gets narrower (Schmeiser, 1982)."""
MIN_PER_BATCH = 5  # below this a batch's count is far from normal
MOST_CORRELATED = 0.8  # beyond it the correction would multiply noise


class BatchInterval(NamedTuple):
    """A figure of a whole series, and how far it is known from the figures of its batches."""

    value: float
    low: float
    high: float
    correlation: float
    """Of neighbouring batches, 0 to `MOST_CORRELATED`; above about 0.4 the series is short against
    its own memory, and the interval is still too narrow."""


def _mean(values: Array) -> float:
    return float(values.mean())


def batch_interval(
    series: ArrayLike,
    of: Callable[[Array], float] = _mean,
    confidence: float = CONFIDENCE,
) -> BatchInterval:
    """`of` the whole series, shape (n,) in order of time, ± its error from `BATCHES` equal batches.

    The error is t(b - 1) s/√b over the batches, times √((1 + r)/(1 - r)) with r the correlation of
    neighbouring batches where that is positive (1/b added, since it comes out too low by that).
    For the mean these are batch means; for a percentile it is sectioning. What is left after whole
    batches belongs to the value but to no batch.
    Sources: Law, "Simulation modeling and analysis", chapter 9; Schmeiser, "Batch size effects in
    the analysis of simulation output", Operations Research 30 (1982) 556; for the correction
    Tafazzoli and Wilson, "Skart", IIE Transactions 43 (2011) 110; Asmussen and Glynn, "Stochastic
    simulation", 2007, section III.5. ValueError for fewer than two values a batch, or one not
    finite.
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
    """Solved tasks an engine-hour, of those that were quick enough."""

    per_engine_hour: float
    low: float | None
    """Ends of the interval; None where the window has too few of them for batches."""
    high: float | None
    tasks: int
    """Solved in time, in the window."""


@dataclass(frozen=True)
class TimedTasks:
    """Tasks as columns of equal length, shape (n,)."""

    ends_s: ArrayLike
    solved: ArrayLike
    """0 or 1; above 0 counts."""
    latency_s: ArrayLike
    """Whichever latency a limit is on."""


def goodput(
    tasks: TimedTasks, limit_s: float, start_s: float, end_s: float, engines: int = 1
) -> Goodput:
    """Tasks solved within `limit_s` that ended in [start_s, end_s), for each engine and hour.

    Source: goodput as in Zhong et al.,
    "DistServe", 2024, with solved tasks in the place of requests; interval by `batch_interval` of
    their counts, None for fewer than `MIN_PER_BATCH` of them a batch.
    ValueError for values not finite, other lengths, an empty window, no engine.
    """
    ends, right, took = (
        numbers(getattr(tasks, name), name, least=0) for name in ("ends_s", "solved", "latency_s")
    )
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
