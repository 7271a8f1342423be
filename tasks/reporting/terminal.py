"""Tables of cells and families: columns as text, for a terminal, Markdown and the page.

In: summaries. Out: a rich table or Markdown text. An absent value reads as a dash.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.reporting.summary import CellSummary, FamilyScore, all_families

if TYPE_CHECKING:
    from rich.table import Table

FINISHED = "finished"
ABSENT = "–"  # noqa: RUF001

CellColumns = Mapping[str, Callable[[CellSummary], str]]


def number(value: float | None, digits: int = 1) -> str:
    """`value` with thousands separated, or a dash."""
    return ABSENT if value is None else f"{value:,.{digits}f}"


def share(value: float | None) -> str:
    """A share of 0 to 1 as a percentage with one digit, or a dash."""
    return ABSENT if value is None else f"{value * 100:.1f} %"


def share_range(low: float | None, high: float | None) -> str:
    """An interval of shares, as percentages."""
    return ABSENT if low is None or high is None else f"{low * 100:.1f} to {high * 100:.1f}"


def number_range(low: float | None, high: float | None) -> str:
    """An interval of numbers."""
    return ABSENT if low is None or high is None else f"{number(low)} to {number(high)}"


def rate(value: float | None) -> str:
    """A rate to three digits or the whole number, or a dash."""
    return number(value, 1 if value is not None and value < 100 else 0)


def rate_range(low: float | None, high: float | None) -> str:
    """An interval of rates."""
    return ABSENT if low is None or high is None else f"{rate(low)} to {rate(high)}"


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
    "n": lambda c: str(c.n),
    "accuracy": lambda c: share(c.accuracy),
    "95 %, acc.": lambda c: share_range(c.accuracy_low, c.accuracy_high),
    "infra errors": lambda c: str(c.n_infra),
    "steps": lambda c: str(c.steps),
    "steps/min": lambda c: rate(c.steps_per_min),
    "95 %, steps/min": lambda c: rate_range(c.steps_per_min_low, c.steps_per_min_high),
    "step p50 s": lambda c: number(c.step_latency_p50, 2),
    "step p95 s": lambda c: number(c.step_latency_p95, 2),
    "step p99 s": lambda c: number(c.step_latency_p99, 2),
    "cost USD": lambda c: number(c.cost_usd, 2),
}
SERVER: CellColumns = {
    "held p95 s": lambda c: number(c.held_p95, 2),
    "prefix hits": lambda c: share(c.server_hit_ratio),
    "KV use": lambda c: share(c.kv_usage_mean),
    "running": lambda c: number(c.running_mean),
    "waiting": lambda c: number(c.waiting_mean),
    "preempt./s": lambda c: number(c.preemptions_per_s, 2),
    "sessions": lambda c: number(c.sessions_mean),
    "window s": window,
    "window rule": lambda c: c.window_reason,
}
FAMILIES: Mapping[str, Callable[[FamilyScore], str]] = {
    "family": lambda s: s.family,
    "model": lambda s: s.model,
    "n": lambda s: str(s.n),
    "correct": lambda s: str(s.correct),
    "accuracy": lambda s: share(s.accuracy),
    "95 %": lambda s: share_range(s.low, s.high),
}
WORDS = frozenset({"policy", "model", "benchmark", "family", "status", "window rule"})
"""Columns of words; the others hold numbers and are aligned right."""


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


def terminal_table(cells: Sequence[CellSummary]) -> "Table":
    """The cells in 80 columns: outcome, speed, hits; infra errors and states when there are any."""
    columns: dict[str, Callable[[CellSummary], str]] = {
        **identity(cells),
        "n": OUTCOME["n"],
        "acc % [95 %]": _accuracy,
        "steps/min [95 %]": _speed,
        "p95 s": OUTCOME["step p95 s"],
        "hits": lambda c: (
            ABSENT if c.server_hit_ratio is None else f"{c.server_hit_ratio * 100:.0f}"
        ),
    }
    if any(cell.n_infra for cell in cells):
        columns["infra"] = OUTCOME["infra errors"]
    if any(cell.status != FINISHED for cell in cells):
        columns["status"] = OUTCOME["status"]
    columns = {name.replace("at once", "at"): show for name, show in columns.items()}
    ordered = sorted(cells, key=lambda c: (c.benchmark, c.model, c.concurrency, c.policy, c.repeat))
    return _rich_table(columns, [[show(c) for show in columns.values()] for c in ordered])


def family_table(scores: Sequence[FamilyScore]) -> "Table":
    """Accuracy by family and model, with a row over all families for each model."""
    found = [[show(score) for show in FAMILIES.values()] for score in family_rows(scores)]
    return _rich_table(FAMILIES, found)


def markdown_table(cells: Sequence[CellSummary]) -> str:
    """The cells as a Markdown table, for a Prefect artifact; a sentence when there are none."""
    if not cells:
        return "No cells.\n"
    columns: CellColumns = {**identity(cells), **OUTCOME, **SERVER}
    lines = [list(columns), ["---" if name in WORDS else "---:" for name in columns]]
    lines += [[_markdown(show(cell)) for show in columns.values()] for cell in cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


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
            table.add_column(Text(name), justify="left", no_wrap=name != "window rule")
        else:
            table.add_column(Text(name), justify="right", no_wrap=True)
    for line in found:
        table.add_row(*map(Text, line))  # Text: a name in brackets is not markup
    return table
