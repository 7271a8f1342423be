"""The report in a terminal, for those without a browser: tables that fit 80 columns, sentences.

In: a `Report`, or rows of one. Out: the tables of the page with fewer columns; rich prints them.
`results_page` is the first artifact of a flow run, in Markdown.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tutti.storage.catalog import FINISHED
from tutti.tasks.reporting.measures import numbers
from tutti.tasks.reporting.measures.families import FamilyScore
from tutti.tasks.reporting.measures.table import Columns, Table, markdown_text, tabulate, texts
from tutti.tasks.reporting.page import Report
from tutti.tasks.reporting.text import columns
from tutti.tasks.reporting.text.columns import OUTCOME, REACHED, SERVER
from tutti.tasks.reporting.text.words import headlines
from tutti.tasks.sweeps.analysis import CellComparison
from tutti.tasks.sweeps.results import CellSummary, in_order
from tutti.tasks.sweeps.search import SearchOutcome

if TYPE_CHECKING:
    from rich.console import Console

TRIALS_SPARE = (
    *("95 %, majority", "95 %, pass^k", "95 %, pass@k", "left out"),
    *("95 %, best", "majority@k", "95 %, avg"),
)
REACHED_HIDDEN = ("late p50 s", "sent p50 s", "sent p95 s", "intended p50 s", "client lag max ms")
EFFICIENCY_HIDDEN = ("solved", "95 %, USD", "95 %, J", "95 %, working s", "s an attempt")
COMPARED = ("figure", "n", "change", "95 %", "verdict")


def terminal_summary(report: Report, console: "Console") -> None:
    """Print the tables, the findings, and the page's path."""
    from rich.text import Text

    for alarm in report.alarms:
        console.print(Text(alarm, style="bold red"))
    console.print(terminal_table(report.cells))
    for table in terminal_tables(report):
        if table.lines:
            console.print(table)
    for sentence in [*report.findings, *(f"missing: {gap}" for gap in report.gaps)]:
        console.print(Text(f"· {sentence}"))
    console.print(Text(f"report: {report.page}"), soft_wrap=True)


def terminal_tables(report: Report) -> list[Table]:
    """The tables after the first; pass@k of several trials for one and for the most."""
    cells = in_order(report.cells)
    is_loaded = any(cell.sessions_mean is not None for cell in cells)
    reached = columns.of_cells(REACHED, cells if is_loaded else [], "load asked and reached")
    return [
        _brief(columns.metrics(report.metrics, cells), spare=("95 %",)),
        _brief(columns.trials(cells, every_k=False), spare=TRIALS_SPARE),
        _brief(reached, (*REACHED_HIDDEN, "client"), ("client CPU", "tools running")),
        _brief(columns.efficiency(report.worth), EFFICIENCY_HIDDEN, ("95 %, engine hour",)),
        *_comparisons(report.compared),
        _brief(columns.noise(report.noise, "the same, measured twice"), spare=("pairs",)),
        family_table(report.scores),
        tabulate(columns.FAILURES, report.failed),
    ]


def terminal_table(cells: Sequence[CellSummary]) -> Table:
    """The cells' table: outcome, speed, hits; infra errors, states and marks if there are any."""
    measure = columns.score_name(cell.measure for cell in cells)
    score = {numbers.ACCURACY: "acc %", numbers.MEAN_SCORE: numbers.MEAN_SCORE}.get(
        measure, "acc % or score"
    )
    shown: dict[str, Callable[[CellSummary], str]] = {
        **columns.identity(cells),
        "n": OUTCOME["n"],
        f"{score} [95 %]": _accuracy,
        "steps/min [95 %]": _speed,
        "p95 s": OUTCOME["step p95 s"],
        "hits": lambda c: numbers.number(
            None if (hits := c.server_hit_ratio) is None else 100 * hits, 0
        ),
    }
    if any(cell.n_infra for cell in cells):
        shown["infra"] = OUTCOME["infra errors"]
    if any(cell.status != FINISHED for cell in cells):
        shown["status"] = lambda c: c.status.removeprefix("ended_")
    if any(cell.client_fault for cell in cells):
        shown["client"] = OUTCOME["client"]
    return Table(texts(shown, in_order(cells)), spare=("hits", "p95 s", "infra"))


def family_table(scores: Sequence[FamilyScore]) -> Table:
    """Accuracy by family and model, with a row over all families for each model."""
    ordered = columns.family_rows(scores)
    return Table(texts(columns.families(ordered), ordered))


def _comparisons(compared: Sequence[CellComparison]) -> list[Table]:
    shown: Columns[CellComparison] = {
        "at once": lambda c: c.where.replace(" at once", ""),
        **{name: columns.COMPARISONS[name] for name in COMPARED},
    }
    pairs: dict[str, list[CellComparison]] = {}
    for each in compared:
        pairs.setdefault(f"{each.name_b} against {each.name_a}", []).append(each)
    return [Table(texts(shown, rows), title, spare=("n",)) for title, rows in pairs.items()]


def _brief(table: Table, hidden: Collection[str] = (), spare: Sequence[str] = ()) -> Table:
    shown = {name: column for name, column in table.texts.items() if name not in hidden}
    return replace(table, texts=shown, title=table.title.lower(), spare=spare).with_values()


def _accuracy(cell: CellSummary) -> str:
    if cell.accuracy is None:
        return numbers.ABSENT
    scale, value, end = (
        (1, ".3f", ".2f") if cell.measure == numbers.MEAN_SCORE else (100, ".1f", ".0f")
    )
    text = f"{scale * cell.accuracy:{value}}"
    if cell.accuracy_low is None or cell.accuracy_high is None:
        return text
    return f"{text} [{scale * cell.accuracy_low:{end}}, {scale * cell.accuracy_high:{end}}]"


def _speed(cell: CellSummary) -> str:
    ends = cell.rate_interval
    return numbers.rate(cell.steps_per_min) + (
        f" [{numbers.rate(ends[0])}, {numbers.rate(ends[1])}]" if ends else ""
    )


def concurrency_table(found: Sequence[SearchOutcome]) -> list[dict[str, str]]:
    """Return the results of a search: one row per policy, all with the same columns, as text."""
    rows = []
    for each in found:
        row = {"policy": each.policy, "highest": each.words}
        if (best := each.best) is None:
            row |= dict.fromkeys(("p95, s", "accuracy", "steps/min"), numbers.ABSENT)
        else:
            row |= {"p95, s": _figure(numbers.seconds, *best.latency)}
            row |= {"accuracy": _figure(numbers.share, *best.accuracy)}
            row |= {"steps/min": _figure(numbers.rate, *best.rate)}
        rows.append(row)
    return rows


def _figure(show: numbers.Show, value: float | None, low: float | None, high: float | None) -> str:
    interval = numbers.span(show, low, high)
    return show(value) if interval == numbers.ABSENT else f"{show(value)} ({interval})"


def markdown_table(cells: Sequence[CellSummary]) -> str:
    if not cells:
        return "No cells were measured.\n"
    shown = {**columns.identity(cells), **columns.outcome_of(cells), **REACHED, **SERVER}
    return tabulate(shown, cells).markdown()


def results_page(report: Report, address: str | None) -> str:
    """The results in words and as a table; `address`: where a browser finds the report's page."""
    file = f"TUTTI_HOME/artifacts/{report.page.parent.name}/{report.page.name}"
    link = f"The report is the file `{report.page}`.\n"
    if address is not None:
        link = (
            f"**[Open the report]({address})**: figures, comparisons and transcripts. The link "
            f"works while `make ui` runs; the file is `{file}`.\n"
        )
    first = headlines(report.cells)
    more = [each for each in report.findings if each not in first]
    parts = [
        link,
        "".join(f"> **{markdown_text(alarm)}**\n\n" for alarm in report.alarms),
        _items(first),
        markdown_table(in_order(report.cells)),
        _items([*more, *(f"missing: {gap}" for gap in report.gaps)]),
    ]
    return "\n".join(part for part in parts if part)


def _items(sentences: Sequence[str]) -> str:
    return "".join(f"- {markdown_text(sentence)}\n" for sentence in sentences)
