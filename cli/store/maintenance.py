"""The verbs `compact`, `verify` and `expire`, which maintain the store.

In: the store of TUTTI_HOME. Out: the result as a line, a table or JSON.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tutti import storage
from tutti.cli.base.failures import ExitCode
from tutti.cli.base.flow import progress_bar
from tutti.cli.base.verbs import AsJson, verb
from tutti.terminal import table

if TYPE_CHECKING:
    from tutti.storage.maintenance import CompactionReport, ExpiredSweep, VerificationReport

SHOWN = 20  # findings printed as text; JSON has all


@verb
def compact(
    grace: Annotated[
        float, typer.Option(help="hours to keep replaced files for open readers")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Merge small parts into larger, sorted ones while readers and writers continue."""

    from tutti.storage.maintenance import compact as run

    with storage.open_catalog() as catalog, progress_bar("compacting parts") as show:
        done = run(catalog, grace_s=grace * 3600, on_progress=show)
    typer.echo(json.dumps(asdict(done)) if as_json else _compacted(done))


@verb
def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="move damaged files to quarantine/; nothing is deleted")
    ] = False,
    min_age: Annotated[
        float, typer.Option(help="report files missing in the catalog after this many minutes")
    ] = 10.0,
    as_json: AsJson = False,
) -> ExitCode:
    """Check all checksums, the files against the catalog, and states against rows.

    Exit code 0 if everything is intact or was repaired, else 1.
    """

    from tutti.storage.maintenance import verify as run

    with storage.open_catalog() as catalog, progress_bar("verifying parts") as show:
        report = run(catalog, repair=repair, min_age_s=min_age * 60, on_progress=show)
    typer.echo(json.dumps(asdict(report)) if as_json else _verified(report))
    is_whole = all(finding.repaired for finding in report.findings)
    return ExitCode.DONE if is_whole else ExitCode.FAILED


@verb
def expire(
    sweep: Annotated[
        list[str] | None, typer.Option(help="a sweep's id or name; repeatable")
    ] = None,
    older_than: Annotated[
        float | None, typer.Option(help="minimum days since the sweep's last run")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be removed")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove the rows of whole sweeps. Cells and lineage are kept, marked as expired."""

    from tutti.storage.maintenance import expire as run

    if older_than is None and not sweep:
        raise typer.BadParameter("give --older-than DAYS, --sweep NAME, or both")
    age = None if older_than is None else timedelta(days=older_than)
    with storage.open_catalog() as catalog:
        found = run(catalog, older_than=age, sweeps=sweep or (), dry_run=dry_run)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in found], default=str))
    else:
        _show_expired(found, dry_run)


def _compacted(done: "CompactionReport") -> str:
    text = f"{done.sources} parts became {done.merged}"
    if done.sources:
        text += f" ({done.bytes_before / 1e6:.1f} MB, now {done.bytes_after / 1e6:.1f} MB)"
    text += f"; {done.files_removed} files replaced earlier were removed"
    if done.files_waiting:
        text += f"; {done.files_waiting} stay until open readers end: run `tutti compact` again"
    return text


def _verified(report: "VerificationReport") -> str:
    lines = [
        f"{found.kind}: {found.path}: {found.reason}"
        + (f"; {found.repaired}" if found.repaired else "")
        for found in report.findings[:SHOWN]
    ]
    if len(report.findings) > SHOWN:
        lines.append(f"and {len(report.findings) - SHOWN} more (--json gives all)")
    looked = f"{report.parts} parts, {report.bytes / 1e6:.1f} MB, {report.attempts} attempts"
    bad = sum(not finding.repaired for finding in report.findings)
    verdict = "all is well" if not report.findings else f"{bad} left to repair (--repair)"
    if report.findings and not bad:
        verdict = f"{len(report.findings)} set aside; the rest is well"
    if report.waiting_files:
        lines.append(f"{report.waiting_files} replaced files are in tables/: run `tutti compact`")
    return "\n".join([*lines, f"{looked}: {verdict}"])


def _show_expired(found: Sequence["ExpiredSweep"], dry_run: bool) -> None:
    rows = []
    for each in found:
        last = f"{each.last_used:%Y-%m-%d}" if each.last_used else ""
        size = (each.cells, f"{each.rows:,}", f"{each.bytes / 1e6:.1f}")
        outcome = each.kept or ("would go" if dry_run else "let go")
        rows.append((each.sweep_id, each.name, last, *size, outcome))
    columns = dict.fromkeys(("sweep", "name", "last worked on"), "fold")
    columns |= dict.fromkeys(("cells", "rows", "MB"), "right") | {"": "fold"}
    Console().print(table(columns, rows) if found else "no sweep is meant")
