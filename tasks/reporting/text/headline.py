"""The headline of a load sweep: from the lowest to the highest level, each figure with interval.

``adaptive, from 2 to 16 at once: accuracy 70.0 % [60.0 to 79.0] -> 68.1 % [58.0 to 77.0]; p95 of a
step 1.20 s [1.10 to 1.30] -> …``
"""

from collections.abc import Callable, Sequence

from tutti.tasks.reporting.scores.headline import MEAN_SCORE
from tutti.tasks.reporting.summary import CellSummary, LoadPoint, load_points
from tutti.tasks.reporting.text.numbers import (
    count,
    rate,
    rate_range,
    score,
    score_range,
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
    named = [place for place in range(3) if len({key[place] for key in series}) > 1]
    names = {key: ", ".join(key[place] for place in named) or ", ".join(key) for key in series}
    said = [_headline(names[key], series[key]) for key in list(series)[:MOST_SERIES]]
    left = len(series) - MOST_SERIES
    return said + ([f"{left} more series are in the table below."] if left > 0 else [])


def _headline(who: str, points: Sequence[LoadPoint]) -> str:
    """`who`: in what the series differs from the others."""
    ordered = sorted(points, key=lambda point: point.concurrency)
    ends = ordered[:1] if len(ordered) == 1 else [ordered[0], ordered[-1]]
    levels = [str(point.concurrency) for point in ends]
    at = f"{levels[0]} at once" if len(levels) == 1 else f"from {levels[0]} to {levels[1]} at once"
    figures = [
        _figure(ordered[0].measure, [_accuracy(point) for point in ends]),
        _figure("p95 of a step", [_latency(point) for point in ends]),
        _figure("steps/min", [_rate(point) for point in ends]),
        _figure("USD an attempt", [_cost(point) for point in ends]),
    ]
    n = " and ".join(count(point.n) for point in ends)
    return f"{who}, {at}: {'; '.join(each for each in figures if each)} (n = {n})."


def _figure(name: str, values: Sequence[str | None]) -> str:
    """``name a -> b``; empty where a value is not known."""
    known = [each for each in values if each is not None]
    return f"{name} {' -> '.join(known)}" if len(known) == len(values) else ""


def _accuracy(point: LoadPoint) -> str | None:
    if point.score is None:
        return None
    if point.measure == MEAN_SCORE:
        return _with(score(point.score), point.accuracy_interval, score_range)
    return _with(share(point.score), point.accuracy_interval, share_range)


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
