"""`tutti compare`: a paired comparison of two sweeps, cells, models or policies."""

import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tutti import storage
from tutti.cli.failures import ExitCode, UsageError, code_of
from tutti.cli.judge.set_ups import apart, grouped
from tutti.cli.options import AsJson
from tutti.cli.verbs import verdict
from tutti.tasks.sweeps import judge

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Metric(StrEnum):
    """The compared column of `attempts`."""

    score = "score"
    cost_usd = "cost_usd"
    working_s = "working_s"


@verdict
def compare(
    a: Annotated[str, typer.Argument(help="a sweep (id or name), cell, model or policy")],
    b: Annotated[str, typer.Argument(help="the side to compare with A")],
    metric: Annotated[
        Metric, typer.Option(help="what to compare; costs and seconds as a ratio")
    ] = Metric.score,
    margin: Annotated[
        float, typer.Option(min=0, help="differences within ± MARGIN are `same`")
    ] = 0.05,
    as_json: AsJson = False,
) -> ExitCode:
    """Compare B with A at every common set-up, paired by task, with Holm's correction.

    A name is looked up among cells, sweeps, models and policies, in this order. If several sweeps
    match, the newest is used (for two models or policies, the newest that measured both). Exit
    code 3 if any verdict is worse, or else 4 if any is inconclusive.
    """
    with storage.connect(macros=("counted", "lost_samples")) as connection:
        sides = judge.find_pair(connection, a, b)
        first, second = (known(connection, *each) for each in zip((a, b), sides, strict=True))
        found = judge.compare_sides(connection, first, second, metric.value, margin)
    if not found:
        raise UsageError(f"{a} and {b} have no set-up in common: see `tutti sweep status`")
    if as_json:
        typer.echo(json.dumps({"a": a, "b": b, "compared": [asdict(row) for row in found]}))
    else:
        _show(found, f"{b} against {a}, {metric.value}, 95 % intervals", margin)
    return code_of(row.verdict for row in found)


def known(connection: "DuckDBPyConnection", name: str, side: "judge.Side | None") -> "judge.Side":
    """The side, if it was found. Raises UsageError, which lists the known sweeps."""
    if side is None:
        rows = connection.execute("select distinct name from sweeps order by name").fetchall()
        there = ", ".join(row[0] for row in rows) or "none yet; `tutti sweep run demo`"
        raise UsageError(f"no cell, sweep, model or policy {name!r} with cells; sweeps: {there}")
    return side


def _show(found: "list[judge.CellComparison]", title: str, margin: float) -> None:
    shared, own = apart([row.where for row in found])
    if shared:
        title = f"{title}\n{shared}"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=title)
    table.add_column("set-up", overflow="fold", min_width=12)
    for head in ("n", "A", "B", "B - A", "interval", "p", "verdict"):
        table.add_column(head, no_wrap=True, justify="left" if head == "verdict" else "right")
    for name, row in zip(own, found, strict=True):
        numbers = map(number, (row.mean_a, row.mean_b, row.difference))
        ends = interval(row.ci_low, row.ci_high)
        table.add_row(name, str(row.n), *numbers, ends, probability(row.p_holm), row.verdict)
    console = Console()
    console.print(table)
    for line in grouped((name, _note(row)) for name, row in zip(own, found, strict=True)):
        console.print(line)
    console.print(f"n: paired tasks. p: Holm's, over all rows. same: within ±{margin:g}.")


def _note(row: "judge.CellComparison") -> str:
    """The verdict's reason, and what was left out."""
    notes = [f"{row.verdict}: {row.reason}"]
    if row.verdict == "inconclusive" and row.detectable is not None:
        notes.append(f"minimum detectable difference {row.detectable:.3g}")
    if row.n_only_a or row.n_only_b:
        notes.append(f"{row.n_only_a + row.n_only_b} tasks on one side only")
    if lost := row.lost_a + row.lost_b:
        notes.append(f"{lost} samples lost to infrastructure")
    return "; ".join(notes)


def number(value: float | None) -> str:
    """Format with three decimals, or in scientific notation if small; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2e}"


def interval(low: float | None, high: float | None) -> str:
    """Format an interval; a dash for None."""
    return "-" if low is None or high is None else f"{number(low)} to {number(high)}"


def probability(p: Any) -> str:
    """Format with three decimals or as `<0.001`; a dash for None."""
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
