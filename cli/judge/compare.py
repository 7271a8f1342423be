"""`tutti compare` and `tutti gate`: a sweep against another, or against the gates of a file."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from tutti import storage
from tutti.cli.base.failures import code_of
from tutti.cli.base.verbs import AsJson, verdict
from tutti.errors import ExitCode, UsageError
from tutti.tasks import nights
from tutti.tasks.sweeps import analysis, spec
from tutti.terminal import table

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
        sides = analysis.Side.find_pair(connection, a, b)
        first, second = (known(connection, *each) for each in zip((a, b), sides, strict=True))
        found = analysis.compare_sides(connection, first, second, metric.value, margin)
    if not found:
        raise UsageError(f"{a} and {b} have no set-up in common: see `tutti sweep status`")
    if as_json:
        typer.echo(json.dumps({"a": a, "b": b, "compared": [asdict(row) for row in found]}))
    else:
        _show_comparison(found, f"{b} against {a}, {metric.value}, 95 % intervals", margin)
    return code_of(row.verdict for row in found)


def known(
    connection: "DuckDBPyConnection", name: str, side: "analysis.Side | None"
) -> "analysis.Side":
    """Return the side, if it exists. Raises UsageError, which lists the known sweeps."""
    if side is None:
        rows = connection.execute("select distinct name from sweeps order by name").fetchall()
        there = ", ".join(row[0] for row in rows) or "none yet; `tutti sweep run demo`"
        raise UsageError(f"no cell, sweep, model or policy {name!r} with cells; sweeps: {there}")
    return side


def _show_comparison(found: "list[analysis.CellComparison]", title: str, margin: float) -> None:
    rows = []
    for row in found:
        numbers = map(number, (row.mean_a, row.mean_b, row.difference))
        ends = interval(row.ci_low, row.ci_high)
        rows.append((row.where, row.n, *numbers, ends, probability(row.p_holm), row.verdict))
    heads = dict.fromkeys(("n", "A", "B", "B - A", "interval", "p"), "right")
    console = Console()
    console.print(table({"set-up": "fold"} | heads | {"verdict": "left"}, rows, title))
    for note, places in _by_note((_note(row), row.where) for row in found).items():
        console.print(note if len(places) == len(found) else f"{note}: {'; '.join(places)}")
    console.print(f"n: paired tasks. p: Holm's, over all rows. same: within ±{margin:g}.")


def _by_note(notes: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for note, place in notes:
        places.setdefault(note, []).append(place)
    return places


def _note(row: "analysis.CellComparison") -> str:
    """Return the verdict's reason, and what was left out."""
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


NOTHING = "nothing was measured"
COLOURS = {"passed": "green", "failed": "red", "inconclusive": "yellow"}


@verdict
def gate(
    file: Annotated[
        Path | None, typer.Argument(help="a YAML file with `gates` and `baseline`")
    ] = None,
    sweep: Annotated[str, typer.Argument(help="a sweep (id or name), cell, model or policy")] = "",
    baseline: Annotated[
        str, typer.Option(help="the baseline of margins, instead of the file's")
    ] = "",
    accept: Annotated[
        str, typer.Option(help="accept this night (nightly-2026-11-21) as baseline instead")
    ] = "",
    why: Annotated[str, typer.Option(help="with --accept: the reason, which is stored")] = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Check a sweep against the gates of a file and store the results in `verdicts`.

    Exit code 0 if all gates passed, 3 if one failed, or else 4 if one is inconclusive.
    """
    if accept:
        _accept(accept, why, as_json)
        return ExitCode.DONE
    if file is None or not sweep:
        raise UsageError("name a file of gates and a sweep; or a night: --accept NIGHT --why")

    asked = spec.read_gates(file)
    with storage.open_catalog() as catalog:
        with storage.connect(catalog.home, comments=False) as connection:
            named = baseline or asked.baseline or sweep
            of_baseline, of_sweep = analysis.Side.find_pair(connection, named, sweep)
            side = known(connection, sweep, of_sweep)
            against = None if named == sweep else known(connection, named, of_baseline)
            found = analysis.check_gates(connection, asked.gates, side, against)
        analysis.enter_verdicts(catalog, side, found)
    if as_json:
        rows = [asdict(each) | {"gate": str(each.gate)} for each in found]
        typer.echo(
            json.dumps({"sweep": sweep, "baseline": against and against.name, "gates": rows})
        )
    else:
        _show_gates(found)
    return code_of(each.status for each in found)


def _accept(night: str, why: str, as_json: bool) -> None:
    with storage.open_catalog() as catalog:
        record = nights.accept_night(catalog, night, why)
    if as_json:
        typer.echo(json.dumps({"night": night, "accepted": record.accepted}))
    else:
        typer.echo(f"{night} ({record.verdict}) was accepted {record.accepted}")


def _show_gates(found: "list[analysis.Outcome]") -> None:
    """Print for each gate its set-ups with their figures, and the reasons once."""
    console = Console()
    for gate in dict.fromkeys(str(each.gate) for each in found):
        mine = [each for each in found if str(each.gate) == gate]
        console.print(f"[bold]{gate}[/]")
        rows = (
            (Text(each.status, COLOURS[each.status]), each.where, each.words or NOTHING)
            for each in mine
        )
        console.print(table({"": "left", " ": "fold", "  ": "fold"}, rows))
        for note, places in _by_note((each.reason, each.where) for each in mine).items():
            line = note if len(places) == len(mine) else f"{note}: {'; '.join(places)}"
            console.print(f"  {escape(line)}")
