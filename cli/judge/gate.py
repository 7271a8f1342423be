"""`tutti gate`: checks a sweep against the gates of a file and stores the verdicts."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tutti import storage
from tutti.cli.failures import ExitCode, UsageError, code_of
from tutti.cli.judge.compare import known
from tutti.cli.judge.set_ups import apart, grouped
from tutti.cli.options import AsJson
from tutti.cli.verbs import verdict
from tutti.tasks import nights
from tutti.tasks.sweeps import analysis, spec

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
        _show(found)
    return code_of(each.status for each in found)


def _accept(night: str, why: str, as_json: bool) -> None:
    with storage.open_catalog() as catalog:
        record = nights.accept_night(catalog, night, why)
    if as_json:
        typer.echo(json.dumps({"night": night, "accepted": record.accepted}))
    else:
        typer.echo(f"{night} ({record.verdict}) was accepted {record.accepted}")


def _show(found: "list[analysis.Outcome]") -> None:
    """For each gate its set-ups with their figures, and the reasons once."""
    console = Console()
    for gate in dict.fromkeys(str(each.gate) for each in found):
        mine = [each for each in found if str(each.gate) == gate]
        shared, own = apart([each.where for each in mine])
        title = f"[bold]{gate}[/]" + (f" ({shared})" if shared else "")
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_header=False)
        for column in (0, 1, 2):
            table.add_column(no_wrap=column == 0, overflow="fold")
        for name, each in zip(own, mine, strict=True):
            colour = COLOURS[each.status]
            figures = each.words or "nothing was measured"
            table.add_row(f"[{colour}]{each.status}[/]", escape(name), escape(figures))
        console.print(title, table, sep="\n")
        for line in grouped((n, each.reason) for n, each in zip(own, mine, strict=True)):
            console.print(f"  {escape(line)}")
