"""Tables of cells, families, comparisons and failures: columns as text.

In: rows of the report. Out: a rich table for a terminal, or Markdown; `page` makes HTML of the same
columns. An absent value reads as a dash.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.reporting.anatomy import PARTS, Anatomy
from tasks.reporting.failures import Failure, Fault
from tasks.reporting.families import FamilyScore, all_families
from tasks.reporting.numbers import (
    ABSENT,
    count,
    number,
    number_range,
    p_value,
    rate,
    rate_range,
    seconds,
    seconds_range,
    share,
    share_range,
    usd,
)
from tasks.reporting.paired import COST, RATE, SCORE, Compared
from tasks.reporting.summary import CellSummary, in_order

if TYPE_CHECKING:
    from rich.table import Table

FINISHED = "finished"

CellColumns = Mapping[str, Callable[[CellSummary], str]]
ComparisonColumns = Mapping[str, Callable[[Compared], str]]


def window(cell: CellSummary) -> str:
    """The cell's window in seconds since its first request."""
    if cell.window_start_s is None:
        return ABSENT
    return number_range(cell.window_start_s, cell.window_end_s)


IDENTITY: CellColumns = {
    "policy": lambda c: c.policy,
    "at once": lambda c: str(c.concurrency),
    "repeat": lambda c: str(c.repeat),
}
OUTCOME: CellColumns = {
    "status": lambda c: c.status,
    "n": lambda c: count(c.n),
    "accuracy": lambda c: share(c.accuracy),
    "95 %, acc.": lambda c: share_range(c.accuracy_low, c.accuracy_high),
    "infra errors": lambda c: count(c.n_infra),
    "steps": lambda c: count(c.steps),
    "steps/min": lambda c: rate(c.steps_per_min),
    "95 %, steps/min": lambda c: rate_range(c.steps_per_min_low, c.steps_per_min_high),
    "step p50 s": lambda c: seconds(c.step_latency_p50),
    "step p95 s": lambda c: seconds(c.step_latency_p95),
    "95 %, p95": lambda c: seconds_range(c.p95_low, c.p95_high),
    "step p99 s": lambda c: seconds(c.step_latency_p99),
    "cost USD": lambda c: usd(c.cost_usd),
    "USD a right answer": lambda c: usd(c.cost_per_solved),
}
SERVER: CellColumns = {
    "held p95 s": lambda c: seconds(c.held_p95),
    "prefix hits": lambda c: share(c.server_hit_ratio),
    "KV use": lambda c: share(c.kv_usage_mean),
    "running": lambda c: number(c.running_mean),
    "waiting": lambda c: number(c.waiting_mean),
    "preempt./s": lambda c: number(c.preemptions_per_s, 2),
    "sessions": lambda c: number(c.sessions_mean),
    "window s": window,
    "window rule": lambda c: c.window_reason,
}
ORIGIN: CellColumns = {
    "n": lambda c: count(c.n),
    "tasks": lambda c: count(c.tasks),
    "infra errors": lambda c: count(c.n_infra),
    "window s": window,
    "task set": lambda c: c.task_set_id,
    "index": lambda c: c.index_id,
    "engine": lambda c: c.engine_id or ABSENT,
    "cell": lambda c: c.cell_id,
}
FAMILIES: Mapping[str, Callable[[FamilyScore], str]] = {
    "family": lambda s: s.family,
    "model": lambda s: s.model,
    "n": lambda s: count(s.n),
    "correct": lambda s: count(s.correct),
    "accuracy": lambda s: share(s.accuracy),
    "95 %": lambda s: share_range(s.low, s.high),
}
FAILURES: Mapping[str, Callable[[Failure], str]] = {
    "status": lambda f: f.status,
    "stop reason": lambda f: f.stop_reason,
    "error": lambda f: f.error,
    "n": lambda f: count(f.n),
    "cells": lambda f: count(f.cells),
}
FAULTS: Mapping[str, Callable[[Fault], str]] = {
    "what": lambda f: f.kind,
    "role or tool": lambda f: f.name,
    "status": lambda f: f.status,
    "error": lambda f: f.detail,
    "n": lambda f: count(f.n),
    "of": lambda f: count(f.of_all),
    "share": lambda f: share(f.n / f.of_all),
}
COMPARISONS: ComparisonColumns = {
    "where": lambda c: c.where,
    "judged": lambda c: c.name_b,
    "against": lambda c: c.name_a,
    "figure": lambda c: c.figure,
    "n": lambda c: count(c.n),
    "left out": lambda c: count(c.left_out),
    "value": lambda c: _value(c, c.mean_b),
    "was": lambda c: _value(c, c.mean_a),
    "change": lambda c: _change(c, c.change),
    "95 %": lambda c: _range(c),
    "p (Holm)": lambda c: p_value(c.p),
    "verdict": lambda c: c.verdict,
}
WORDS = frozenset(
    {"policy", "model", "benchmark", "family", "status", "window rule", "stop reason", "error"}
    | {"what", "role or tool", "where", "judged", "against", "figure", "verdict"}
    | {"task set", "index", "engine", "cell", "field", "A", "B"}
)
"""Columns of words; the others hold numbers and are aligned right."""
WRAPPED = ("window rule", "where", "error", "figure")


def identity(cells: Sequence[CellSummary]) -> CellColumns:
    """Columns that tell the cells apart; benchmark and model only where they differ."""
    columns: dict[str, Callable[[CellSummary], str]] = {}
    if len({cell.benchmark for cell in cells}) > 1:
        columns["benchmark"] = lambda c: c.benchmark
    if len({cell.model for cell in cells}) > 1:
        columns["model"] = lambda c: c.model
    columns |= IDENTITY
    if all(cell.repeat == cells[0].repeat for cell in cells):
        del columns["repeat"]
    return columns


def family_rows(scores: Sequence[FamilyScore]) -> list[FamilyScore]:
    """Scores by family, so that a family's models stand together; all families last."""
    return sorted(scores, key=lambda s: s.family) + all_families(scores)


def anatomy_columns(found: Sequence[Anatomy]) -> Mapping[str, Callable[[Anatomy], str]]:
    """Seconds a step by part; parts that no cell has are left out."""
    columns: dict[str, Callable[[Anatomy], str]] = {
        name: lambda a, show=show: show(a.cell)  # type: ignore[misc]
        for name, show in identity([each.cell for each in found]).items()
    }
    for part in PARTS:
        if any(each.seconds[part] > 0 for each in found):
            columns[part] = lambda a, part=part: seconds(a.seconds[part])  # type: ignore[misc]
    return columns | {"all": lambda a: seconds(a.total)}


def terminal_table(cells: Sequence[CellSummary]) -> "Table":
    """The cells in 80 columns: outcome, speed, hits; infra errors and states when there are any."""
    columns: dict[str, Callable[[CellSummary], str]] = {
        **identity(cells),
        "n": OUTCOME["n"],
        "acc % [95 %]": _accuracy,
        "steps/min [95 %]": _speed,
        "p95 s": OUTCOME["step p95 s"],
    }
    if "model" not in columns:  # with it there is no room
        columns["hits"] = lambda c: (
            ABSENT if c.server_hit_ratio is None else f"{c.server_hit_ratio * 100:.0f}"
        )
    if any(cell.n_infra for cell in cells):
        columns["infra"] = OUTCOME["infra errors"]
    if any(cell.status != FINISHED for cell in cells):
        columns["status"] = OUTCOME["status"]
    columns = {name.replace("at once", "at"): show for name, show in columns.items()}
    found = [[show(cell) for show in columns.values()] for cell in in_order(cells)]
    return _rich_table(columns, found)


def family_table(scores: Sequence[FamilyScore]) -> "Table":
    """Accuracy by family and model, with a row over all families for each model."""
    found = [[show(score) for show in FAMILIES.values()] for score in family_rows(scores)]
    return _rich_table(FAMILIES, found)


def failure_table(found: Sequence[Failure]) -> "Table":
    """Attempts that failed or were wrong, by how they ended."""
    return _rich_table(FAILURES, [[show(each) for show in FAILURES.values()] for each in found])


def comparison_table(found: Sequence[Compared]) -> "Table":
    """What was compared with what, in 80 columns: the verdict without its reason."""
    names = ("where", "judged", "against", "figure", "n", "change", "95 %", "verdict")
    columns = {name: COMPARISONS[name] for name in names}
    if len({(c.name_a, c.name_b) for c in found}) == 1:
        columns = {n: show for n, show in columns.items() if n not in ("judged", "against")}
    return _rich_table(columns, [[show(each) for show in columns.values()] for each in found])


def markdown_table(cells: Sequence[CellSummary]) -> str:
    """The cells as a Markdown table, for a Prefect artifact; a sentence when there are none."""
    if not cells:
        return "No cells.\n"
    columns: CellColumns = {**identity(cells), **OUTCOME, **SERVER}
    lines = [list(columns), ["---" if name in WORDS else "---:" for name in columns]]
    lines += [[_markdown(show(cell)) for show in columns.values()] for cell in cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _value(compared: Compared, value: float | None) -> str:
    if compared.figure == SCORE.name:
        return share(value)
    return {RATE: rate, COST.name: usd}.get(compared.figure, seconds)(value)


def _range(compared: Compared) -> str:
    if compared.low is None or compared.high is None:
        return ABSENT
    if compared.figure == RATE:
        return f"{compared.low:.2f} to {compared.high:.2f}"
    return f"{_change(compared, compared.low)} to {_change(compared, compared.high)}"


def _change(compared: Compared, value: float | None) -> str:
    if value is None:
        return ABSENT
    if compared.figure == RATE:
        return f"{value:.2f} times"
    if compared.figure == SCORE.name:
        return f"{value * 100:+.1f}"
    text = (usd if compared.figure == COST.name else seconds)(value)
    return text if value < 0 else f"+{text}"


def _accuracy(cell: CellSummary) -> str:
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


def _markdown(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _rich_table(columns: Mapping[str, object], found: Sequence[Sequence[str]]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for name in columns:
        if name in WORDS:
            table.add_column(Text(name), justify="left", no_wrap=name not in WRAPPED)
        else:
            table.add_column(Text(name), justify="right", no_wrap=True)
    for line in found:
        table.add_row(*map(Text, line))  # Text: a name in brackets is not markup
    return table
