"""The headline of a load sweep: from the lowest to the highest level, each figure with interval.

``gsm8k, pocket, adaptive, from 2 to 16 at once: accuracy 70.0 % [60 to 79] to 68.1 % [58 to 77]
(n = 100 and 100), p95 of a step …``
"""

from collections.abc import Callable, Sequence

from tutti.tasks.reporting.summary import CellSummary, LoadPoint, load_points
from tutti.tasks.reporting.text.numbers import (
    count,
    rate,
    rate_range,
    seconds,
    seconds_range,
    share,
    share_range,
    usd,
    usd_range,
)
from tutti.tasks.scoring.statistics import Interval

MOST_SERIES = 8
"""Series in the headline; a larger grid is in the table below it."""


def headlines(cells: Sequence[CellSummary]) -> list[str]:
    """One sentence for each benchmark, model and policy, in the order of the points."""
    series: dict[tuple[str, str, str], list[LoadPoint]] = {}
    for point in load_points(cells):
        if point.n or point.steps:
            key = (point.benchmark, point.model, point.policy)
            series.setdefault(key, []).append(point)
    said = [_headline(points) for points in list(series.values())[:MOST_SERIES]]
    left = len(series) - MOST_SERIES
    return said + ([f"{left} more series are in the table below."] if left > 0 else [])


def _headline(points: Sequence[LoadPoint]) -> str:
    ordered = sorted(points, key=lambda point: point.concurrency)
    ends = ordered[:1] if len(ordered) == 1 else [ordered[0], ordered[-1]]
    levels = [str(point.concurrency) for point in ends]
    at = (
        f"at {levels[0]} at once"
        if len(levels) == 1
        else f"from {levels[0]} to {levels[1]} at once"
    )
    figures = [
        _figure("accuracy", [_accuracy(point) for point in ends]),
        _figure("p95 of a step", [_latency(point) for point in ends]),
        _figure("steps/min", [_rate(point) for point in ends]),
        _figure("USD an attempt", [_cost(point) for point in ends]),
    ]
    first = points[0]
    who = ", ".join((first.benchmark, first.model, first.policy))
    n = " and ".join(count(point.n) for point in ends)
    return f"{who}, {at}: {'; '.join(each for each in figures if each)} (n = {n})."


def _figure(name: str, values: Sequence[str | None]) -> str:
    """``name a -> b``; empty where a value is not known."""
    known = [each for each in values if each is not None]
    return f"{name} {' -> '.join(known)}" if len(known) == len(values) else ""


def _accuracy(point: LoadPoint) -> str | None:
    if not point.n:
        return None
    return _with(share(point.correct / point.n), point.accuracy_interval, share_range)


def _latency(point: LoadPoint) -> str | None:
    if point.latency is None:
        return None
    return _with(f"{seconds(point.latency)} s", point.latency_interval, seconds_range)


def _rate(point: LoadPoint) -> str | None:
    return None if point.rate is None else _with(rate(point.rate), point.rate_interval, rate_range)


def _cost(point: LoadPoint) -> str | None:
    return None if not point.cost else _with(usd(point.cost), point.cost_interval, usd_range)


def _with(
    value: str,
    interval: Interval | None,
    words: Callable[[float | None, float | None], str],
) -> str:
    return value if interval is None else f"{value} [{words(*interval)}]"
