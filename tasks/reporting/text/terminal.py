"""The report in a terminal, for those without a browser: tables that fit 80 columns, sentences.

In: a `Report`, or rows of one. Out: a `Table` of the columns that are asked for most; `tutti` and
rich print it. `results_page` is the first artifact of a flow run, in Markdown.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tutti.storage.catalog import FINISHED
from tutti.tasks.reporting.efficiency import Efficiency
from tutti.tasks.reporting.failures import Failure
from tutti.tasks.reporting.families import FamilyScore
from tutti.tasks.reporting.named import NamedMetric
from tutti.tasks.reporting.page import Report
from tutti.tasks.reporting.pairs import Noise
from tutti.tasks.reporting.table import Columns, Table, markdown_text, tabulate, texts
from tutti.tasks.reporting.text.columns import (
    COMPARISONS,
    FAILURES,
    NOISE,
    OUTCOME,
    REACHED,
    SERVER,
    efficiency,
    families,
    family_rows,
    identity,
    metrics,
    named,
    outcome,
    renamed,
    score_name,
    trials,
)
from tutti.tasks.reporting.text.numbers import (
    ABSENT,
    ACCURACY,
    MEAN_SCORE,
    rate,
    seconds,
    share,
    span,
)
from tutti.tasks.reporting.text.words import headlines
from tutti.tasks.sweeps.analysis import CellComparison
from tutti.tasks.sweeps.results import CellSummary, in_order
from tutti.tasks.sweeps.search import SearchOutcome

if TYPE_CHECKING:
    from rich.console import Console


def terminal_summary(report: Report, console: "Console") -> None:
    """Print the tables, the findings, and the page's path."""
    from rich.text import Text

    for alarm in report.alarms:
        console.print(Text(alarm, style="bold red"))
    console.print(terminal_table(report.cells))
    for table in _tables(report):
        if table.lines:
            console.print(table)
    for sentence in [*report.findings, *(f"missing: {gap}" for gap in report.gaps)]:
        console.print(Text(f"· {sentence}"))
    console.print(Text(f"report: {report.page}"), soft_wrap=True)


def _tables(report: Report) -> list[Table]:
    """The tables after the first."""
    is_loaded = any(cell.sessions_mean is not None for cell in report.cells)
    return [
        metrics_table(report.metrics, report.cells),
        trials_table(report.cells),
        *([reached_table(report.cells)] if is_loaded else []),
        efficiency_table(report.worth),
        *comparison_tables(report.compared),
        noise_table(report.noise),
        family_table(report.scores),
        failure_table(report.failed),
    ]


def terminal_table(cells: Sequence[CellSummary]) -> Table:
    """The cells: outcome, speed, hits; infra errors, states and marks when there are any."""
    columns: dict[str, Callable[[CellSummary], str]] = {
        **identity(cells),
        "n": OUTCOME["n"],
        _headline_name(cells): _accuracy,
        "steps/min [95 %]": _speed,
        "p95 s": OUTCOME["step p95 s"],
        "hits": lambda c: (
            ABSENT if c.server_hit_ratio is None else f"{c.server_hit_ratio * 100:.0f}"
        ),
    }
    if any(cell.n_infra for cell in cells):
        columns["infra"] = OUTCOME["infra errors"]
    if any(cell.status != FINISHED for cell in cells):
        columns["status"] = lambda c: c.status.removeprefix("ended_")
    if any(cell.client_fault for cell in cells):
        columns["client"] = OUTCOME["client"]
    return Table(texts(columns, in_order(cells)), spare=("hits", "p95 s", "infra"))


def trials_table(cells: Sequence[CellSummary]) -> Table:
    """pass@k, pass^k and majority@k of the cells with several trials a task, for one trial and for
    the most; the page has every k."""
    intervals = ("95 %, majority", "95 %, pass^k", "95 %, pass@k")
    spare = (*intervals, "left out", "95 %, best", "majority@k", "95 %, avg")
    return _brief(trials(in_order(cells), every_k=False), spare)


def metrics_table(found: Sequence[NamedMetric], cells: Sequence[CellSummary]) -> Table:
    """What benchmarks report beside their headline scores."""
    return _brief(metrics(found, in_order(cells)), ("95 %",))


def reached_table(cells: Sequence[CellSummary]) -> Table:
    """Requested and reached load."""
    names = ("sessions", "calls in flight", "tools running", "late p95 s", "intended p95 s")
    chosen = {name: REACHED[name] for name in (*names, "client lag p99 ms", "client CPU")}
    ordered = in_order(cells)
    table = Table(named(ordered) | texts(chosen, ordered), "load asked and reached")
    return replace(table.with_values(), spare=("client CPU", "tools running"))


def efficiency_table(found: Sequence[Efficiency]) -> Table:
    """Tasks solved against time, cost and energy."""
    names = ("front", "solved an engine hour", "95 %, engine hour", "USD/solved", "J/solved")
    known = efficiency(found)
    chosen = {name: known[name] for name in (*names, "working s/solved") if name in known}
    table = Table(named([each.cell for each in found]) | texts(chosen, found), "what it is worth")
    return replace(table.with_values(), spare=("95 %, engine hour",))


def noise_table(found: Sequence[Noise]) -> Table:
    """The noise floor: differences between repeated measurements of one set-up."""
    columns = named([each.cell for each in found]) | texts(NOISE, found)
    return Table(columns, "the same, measured twice", spare=("pairs",))


def family_table(scores: Sequence[FamilyScore]) -> Table:
    """Accuracy by family and model, with a row over all families for each model."""
    found = family_rows(scores)
    return Table(texts(families(found), found))


def failure_table(found: Sequence[Failure]) -> Table:
    """Attempts that failed or were wrong, by how they ended."""
    return tabulate(FAILURES, found)


def comparison_tables(found: Sequence[CellComparison]) -> list[Table]:
    """The comparisons, one table for each pair of sides: verdicts without their reasons."""
    columns: dict[str, Callable[[CellComparison], str]] = {
        "at once": lambda c: c.where.replace(" at once", "")
    }
    columns |= {name: COMPARISONS[name] for name in ("figure", "n", "change", "95 %", "verdict")}
    pairs: dict[tuple[str, str], list[CellComparison]] = {}
    for each in found:
        pairs.setdefault((each.name_b, each.name_a), []).append(each)
    return [
        Table(texts(columns, rows), f"{b} against {a}", spare=("n",))
        for (b, a), rows in pairs.items()
    ]


def markdown_table(cells: Sequence[CellSummary]) -> str:
    """The cells as a Markdown table, for a Prefect artifact; a sentence when there are none."""
    if not cells:
        return "No cells.\n"
    columns = {**identity(cells), **outcome(cells), **REACHED, **SERVER}
    return tabulate(columns, cells).markdown()


def concurrency_table(found: Sequence[SearchOutcome]) -> list[dict[str, str]]:
    """The answers of a search: one row a policy, all of the same columns, as text."""
    return [_found_row(each) for each in found]


def _found_row(found: SearchOutcome) -> dict[str, str]:
    row = {"policy": found.policy, "highest": found.said}
    best = found.best
    if best is None:
        return row | dict.fromkeys(("p95, s", "accuracy", "steps/min"), ABSENT)
    latency, accuracy = best.latency, best.accuracy
    row["p95, s"] = _with(seconds(latency.value), span(seconds, latency.low, latency.high))
    row["accuracy"] = _with(share(accuracy.value), span(share, accuracy.low, accuracy.high))
    row["steps/min"] = _with(rate(best.rate.value), span(rate, best.rate.low, best.rate.high))
    return row


def _with(value: str, interval: str) -> str:
    return value if interval == ABSENT else f"{value} ({interval})"


def _brief(table: Table, spare: Sequence[str]) -> Table:
    return replace(table, title=table.title.lower(), spare=spare)


def _headline_name(cells: Sequence[CellSummary]) -> str:
    names = {ACCURACY: "acc %", MEAN_SCORE: MEAN_SCORE}
    name = score_name(cell.measure for cell in cells)
    return f"{names.get(name, 'acc % or score')} [95 %]"


def _accuracy(cell: CellSummary) -> str:
    if cell.measure == MEAN_SCORE and cell.accuracy is not None:
        low, high = cell.accuracy_low, cell.accuracy_high
        ends = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
        return f"{cell.accuracy:.3f}{ends}"
    if cell.accuracy is None or cell.accuracy_low is None or cell.accuracy_high is None:
        return ABSENT
    return f"{cell.accuracy:.1%} [{cell.accuracy_low:.0%}, {cell.accuracy_high:.0%}]".replace(
        "%", ""
    )


def _speed(cell: CellSummary) -> str:
    low, high = cell.steps_per_min_low, cell.steps_per_min_high
    if low is None or high is None:
        return rate(cell.steps_per_min)
    return f"{rate(cell.steps_per_min)} [{rate(low)}, {rate(high)}]"


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
