"""The results as a Markdown page: the first artifact of a flow run.

In: a `Report`, and the address of its page. Out: what it found in words, a table of the cells that
fits a screen, and below it the table with all columns.
"""

from tutti.storage.catalog import FINISHED
from tutti.tasks.reporting.page import Report
from tutti.tasks.reporting.summary import CellSummary, in_order
from tutti.tasks.reporting.table import Columns, Table, markdown_text, tabulate
from tutti.tasks.reporting.text.columns import OUTCOME, identity, renamed
from tutti.tasks.reporting.text.headline import headlines
from tutti.tasks.reporting.text.numbers import ACCURACY
from tutti.tasks.reporting.text.terminal import markdown_table

IDENTITY_WORDS = {"at once": "sessions at once"}
FIGURES: Columns[CellSummary] = {
    "samples": OUTCOME["n"],
    "correct": OUTCOME["accuracy"],
    "95 % interval": OUTCOME["95 %, acc."],
    "steps a minute": OUTCOME["steps/min"],
    "median step, s": OUTCOME["step p50 s"],
    "p95 of a step, s": OUTCOME["step p95 s"],
    "cost, USD": OUTCOME["cost USD"],
}
"""The columns that are asked for first, with their names in words."""


def results_page(report: Report, address: str | None) -> str:
    """The results in words and as tables; `address`: where a browser finds the report's page."""
    cells = in_order(report.cells)
    first = headlines(report.cells)
    more = [each for each in report.findings if each not in first]
    missing = [f"missing: {gap}" for gap in report.gaps]
    parts = [
        _link(report, address),
        "".join(f"> **{markdown_text(alarm)}**\n\n" for alarm in report.alarms),
        _items(first),
        _short(cells).markdown() if cells else "No cells were measured.\n",
        _items([*more, *missing]),
        f"### All columns\n\n{markdown_table(cells)}" if cells else "",
    ]
    return "\n".join(part for part in parts if part)


def _link(report: Report, address: str | None) -> str:
    if address is None:
        return f"The report is the file `{report.page}`.\n"
    file = f"TUTTI_HOME/artifacts/{report.page.parent.name}/{report.page.name}"
    return (
        f"**[Open the report]({address})**: figures, comparisons and transcripts. The link works "
        f"while `make ui` runs; the file is `{file}`.\n"
    )


def _short(cells: list[CellSummary]) -> Table:
    """The columns that fit a screen; states and errors where there are any."""
    columns = renamed(identity(cells), IDENTITY_WORDS)
    if any(cell.status != FINISHED for cell in cells):
        columns["status"] = OUTCOME["status"]
    columns |= FIGURES
    if any(cell.measure != ACCURACY for cell in cells):
        columns = renamed(columns, {"correct": "score"})
    if any(cell.n_infra for cell in cells):
        columns["infrastructure errors"] = OUTCOME["infra errors"]
    return tabulate(columns, cells)


def _items(sentences: list[str]) -> str:
    return "".join(f"- {markdown_text(sentence)}\n" for sentence in sentences)
