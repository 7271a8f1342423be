"""The report in a terminal, for those without a browser.

In: a `Report`. Out: tables and sentences on a rich console.
"""

from typing import TYPE_CHECKING

from tasks.reporting.page import Report
from tasks.reporting.terminal import (
    comparison_table,
    failure_table,
    family_table,
    terminal_table,
)

if TYPE_CHECKING:
    from rich.console import Console


def terminal_summary(report: Report, console: "Console") -> None:
    """Print the cells, what was compared, families, failures, the findings, and the page's path."""
    from rich.text import Text

    console.print(terminal_table(report.cells))
    if report.compared:
        console.print(comparison_table(report.compared))
    if report.scores:
        console.print(family_table(report.scores))
    if report.failed:
        console.print(failure_table(report.failed))
    for sentence in [*report.findings, *(f"missing: {gap}" for gap in report.gaps)]:
        console.print(Text(f"· {sentence}"))
    console.print(Text(f"report: {report.page}"), soft_wrap=True)
