"""Columns of what benchmarks report beside their headline scores.

In: named metrics and the report's cells. Out: rows and columns for `html` and `terminal`.
"""

from collections.abc import Callable, Mapping, Sequence

from tutti.tasks.reporting.scores.named import NamedMetric
from tutti.tasks.reporting.summary import CellSummary
from tutti.tasks.reporting.text.columns import identity
from tutti.tasks.reporting.text.numbers import count, number, number_range, share, share_range

MetricRow = tuple[CellSummary, NamedMetric]


def metric_rows(metrics: Sequence[NamedMetric], cells: Sequence[CellSummary]) -> list[MetricRow]:
    """Each metric with its cell, in the order of the cells; of other cells none."""
    return [(cell, each) for cell in cells for each in metrics if each.cell_id == cell.cell_id]


def metric_columns(found: Sequence[MetricRow]) -> Mapping[str, Callable[[MetricRow], str]]:
    """The cells' identity, the metric's name, n, value and interval."""
    columns: dict[str, Callable[[MetricRow], str]] = {
        name: lambda row, show=show: show(row[0])  # type: ignore[misc]
        for name, show in identity([cell for cell, _ in found]).items()
    }
    columns |= {
        "measure": lambda row: row[1].name,
        "n": lambda row: count(row[1].n),
        "value": lambda row: _value(row[1]),
        "95 %": lambda row: _range(row[1]),
    }
    if any(metric.left_out for _, metric in found):
        columns["left out"] = lambda row: count(row[1].left_out)
    return columns


def _value(metric: NamedMetric) -> str:
    return share(metric.value) if metric.is_share else number(metric.value, 2)


def _range(metric: NamedMetric) -> str:
    words = share_range if metric.is_share else number_range
    return words(metric.low, metric.high)
