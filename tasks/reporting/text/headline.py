"""The headline of a load sweep: from the lowest to the highest level, each figure with interval.

``adaptive, from 2 to 16 at once: accuracy 70.0 % [60.0 to 79.0] -> 68.1 % [58.0 to 77.0]; p95 of a
step 1.20 s [1.10 to 1.30] -> …``
"""

from collections.abc import Sequence

from tutti.tasks.reporting.summary import CellSummary, LoadPoint, load_points
from tutti.tasks.reporting.text.numbers import Show, count, headline, rate, seconds, span, usd
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
    show = headline(ordered[0].measure)
    figures = [
        _figure(ordered[0].measure, show, [(p.score, p.accuracy_interval) for p in ends]),
        _figure("p95 of a step", seconds, [(p.latency, p.latency_interval) for p in ends], " s"),
        _figure("steps/min", rate, [(p.rate, p.rate_interval) for p in ends]),
        _figure("USD an attempt", usd, [(p.cost or None, p.cost_interval) for p in ends]),
    ]
    n = " and ".join(count(point.n) for point in ends)
    return f"{who}, {at}: {'; '.join(each for each in figures if each)} (n = {n})."


def _figure(
    name: str,
    show: Show,
    values: Sequence[tuple[float | None, Interval | None]],
    unit: str = "",
) -> str:
    """``name a -> b``; empty where a value is not known."""
    if any(value is None for value, _ in values):
        return ""
    shown = [
        f"{show(value)}{unit}" + (f" [{span(show, *interval)}]" if interval else "")
        for value, interval in values
    ]
    return f"{name} {' -> '.join(shown)}"
