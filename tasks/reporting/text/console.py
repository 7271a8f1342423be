"""The report in a terminal, for those without a browser.

In: a `Report`. Out: tables and sentences on a rich console.
"""

from typing import TYPE_CHECKING

from tutti.tasks.reporting.page import Report
from tutti.tasks.reporting.text.terminal import (
    comparison_tables,
    efficiency_table,
    failure_table,
    family_table,
    metrics_table,
    noise_table,
    reached_table,
    terminal_table,
    trials_table,
)

if TYPE_CHECKING:
    from rich.console import Console


def terminal_summary(report: Report, console: "Console") -> None:
    """Print the tables, the findings, and the page's path."""
    from rich.text import Text

    for alarm in report.alarms:
        console.print(Text(alarm, style="bold red"))
    console.print(terminal_table(report.cells))
    if report.metrics:
        console.print(metrics_table(report.metrics, report.cells))
    if any(cell.trials for cell in report.cells):
        console.print(trials_table(report.cells))
    if any(cell.sessions_mean is not None for cell in report.cells):
        console.print(reached_table(report.cells))
    if report.worth:
        console.print(efficiency_table(report.worth))
    for table in comparison_tables(report.compared):
        console.print(table)
    if report.noise:
        console.print(noise_table(report.noise))
    if report.scores:
        console.print(family_table(report.scores))
    if report.failed:
        console.print(failure_table(report.failed))
    for sentence in [*report.findings, *(f"missing: {gap}" for gap in report.gaps)]:
        console.print(Text(f"· {sentence}"))
    console.print(Text(f"report: {report.page}"), soft_wrap=True)
