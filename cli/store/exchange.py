"""`tutti import`, `tutti export` and `tutti view`: exchange of logs with other programs.

In: paths, or a choice of attempts. Out: one line of counts on standard output (or JSON), and each
problem as ``file:line: field: reason`` on standard error.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutti.cli.failures import ExitCode, conclude, guarded
from tutti.cli.options import AsJson
from tutti.cli.store import outputs, parquet, summaries, swe_bench, training_sets, viewer
from tutti.terminal import shown

if TYPE_CHECKING:
    from tutti.storage import Catalog
    from tutti.tasks.exchange import ImportedAttempt, ImportedItem, ImportReport

LISTED = 20  # problems printed as text; --json has all that the loader keeps
VIEW_PORT = 7575  # inspect view's own
FORMATS = (
    "inspect, atif, verifiers, nemo-skills, lm-eval, tau2, thunderagent, swe-bench, "
    "mini-swe-agent, terminal-bench"
)
SWEEP_FORMATS: dict[str, Callable[..., None]] = {
    outputs.FORMAT: outputs.export,
    swe_bench.FORMAT: swe_bench.export,
    parquet.FORMAT: parquet.export,
}
WORDS = {
    "sweep": "a sweep's id or name (the newest of that name)",
    "cell": "a cell's id; repeatable",
    "where": "SQL condition on the columns of attempts: \"status = 'ok'\"",
}

Sweep = Annotated[str, typer.Option(help=WORDS["sweep"])]
Cells = Annotated[list[str] | None, typer.Option("--cell", help=WORDS["cell"])]
Where = Annotated[str | None, typer.Option(help=WORDS["where"])]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("import")(import_)
    app.command()(export)
    app.command()(view)


def import_(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[FORMAT] PATH...",
            help=f"files or folders; FORMAT (detected): {FORMATS}",
        ),
    ],
    name: Annotated[
        str,
        typer.Option(help="name of a run whose files have none (its path)"),
    ] = "",
    onto: Annotated[
        str,
        typer.Option(help="add a swe-bench report's scores to the attempts of this stored sweep"),
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="exit code 1 if a record could not be imported")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import other programs' logs into the store; known records are skipped."""

    def work() -> ExitCode:
        from tutti.cli.local import find_sweep
        from tutti.storage import open_catalog
        from tutti.tasks.exchange import ImportReport

        jobs = _jobs(what)
        total = ImportReport()
        with open_catalog() as catalog:
            if onto:
                sweep_id = find_sweep(catalog, onto)
                problems = swe_bench.import_onto(catalog, jobs, sweep_id, as_json)
                return ExitCode.FAILED if problems and strict else ExitCode.DONE
            for format, path in jobs:
                _import_one(catalog, format, path, name, total)
        _show_report(total, as_json)
        took = total.taken + total.there + total.records + total.records_there
        failed = not took or (strict and total.problems_total > 0)
        return ExitCode.FAILED if failed else ExitCode.DONE

    conclude(work)


def export(
    format: Annotated[
        str,
        typer.Argument(
            help="inspect (a .eval log per cell), atif, thunderagent (a sweep's logs and "
            "summaries), nemo-skills (a sweep's output files and metrics.json), swe-bench (a "
            "sweep's preds.json), or parquet (a file per table); with --training-set: "
            + training_sets.FORMATS
        ),
    ],
    out: Annotated[Path, typer.Option(help="output folder")],
    training_set: Annotated[
        str, typer.Option(help="export this training set, named by its id, and no attempts")
    ] = "",
    sweep: Sweep = "",
    cell: Cells = None,
    where: Where = None,
    window: Annotated[
        str, typer.Option(help="for thunderagent: START,END in seconds since the first answer")
    ] = "600,7800",
    force: Annotated[bool, typer.Option("--force", help="replace files of the same name")] = False,
    as_json: AsJson = False,
) -> None:
    """Export attempts (all if none are chosen) or a training set in another program's format."""

    def work() -> None:
        from tutti.cli.failures import UsageError
        from tutti.storage import open_catalog
        from tutti.tasks.exchange import EXPORTERS

        if training_set or format in training_sets.FORMATS.split(", "):
            narrowed = bool(sweep or cell or where)
            training_sets.export(training_set, format, out, narrowed, force, as_json)
            return
        whole = SWEEP_FORMATS | {summaries.FORMAT: partial(summaries.export, window=window)}
        if format not in EXPORTERS and format not in whole:
            raise UsageError(
                f"no export format {format!r}; known: {', '.join([*EXPORTERS, *whole])}"
            )
        with open_catalog() as catalog:
            if format in whole:
                sweep_id = _whole_sweep(catalog, format, sweep, bool(cell or where))
                whole[format](catalog, sweep_id, out, force, as_json)
                return
            chosen = AttemptChoice(sweep, cell or [], where)
            files, count = _export(catalog, format, out, chosen, force)
        found = {"attempts": count, "files": [str(file) for file in files]}
        words = f"{count} attempts in {len(files)} files in {out}"
        typer.echo(json.dumps(found) if as_json else words)

    guarded(work)


def _whole_sweep(catalog: "Catalog", format: str, sweep: str, narrowed: bool) -> str:
    """The id of the sweep to export whole; empty for all, which only tables are exported of."""
    from tutti.cli.failures import UsageError
    from tutti.cli.local import find_sweep

    is_tables = format == parquet.FORMAT
    if narrowed:
        what = "sweeps" if is_tables else "cells"
        words = f"{format} exports whole {what}; use --sweep instead of --cell and --where"
        raise UsageError(words)
    if sweep:
        return find_sweep(catalog, sweep)
    return "" if is_tables else _newest_sweep(catalog)


def view(
    sweep: Annotated[str, typer.Option(help=WORDS["sweep"] + " (the newest)")] = "",
    cell: Cells = None,
    where: Where = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="the viewer's port")] = VIEW_PORT,
    host: Annotated[str, typer.Option(help="the viewer's address")] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Show trajectories in `inspect view` until Ctrl-C."""

    def work() -> None:
        from tutti.storage import content_hash, open_catalog
        from tutti.tasks.exchange.inspect import require_inspect
        from tutti.tasks.serving import claim_port

        require_inspect()
        claim_port(port, f"`--port {port + 1}`, for example")
        with open_catalog() as catalog:
            chosen = sweep if sweep or cell or where else _newest_sweep(catalog)
            key = content_hash([str(chosen), cell or [], where])
            folder = catalog.home.root / "exports" / key
            viewer.clear(folder)
            attempts = AttemptChoice(chosen, cell or [], where)
            files, count = _export(catalog, "inspect", folder, attempts, True)
            shown = {"url": f"http://{host}:{port}/", "folder": str(folder), "attempts": count}
            words = f"{count} attempts in {len(files)} logs at {shown['url']}\nCtrl-C ends it."
            viewer.serve(catalog, folder, host, port, json.dumps(shown) if as_json else words)

    guarded(work)


def _jobs(what: list[str]) -> list[tuple[str, Path]]:
    """The format and path of each import."""
    from tutti.cli.failures import UsageError
    from tutti.tasks.exchange import IMPORTERS, detect

    given = what[0] in (*IMPORTERS, "auto")
    format, names = (what[0], what[1:]) if given else ("auto", what)
    if not names:
        raise UsageError(f"no path to import; give one after the format: {format} PATH")
    if missing := [name for name in names if not Path(name).exists()]:
        hint = "" if given else f" (formats: {FORMATS})"
        raise UsageError(f"{missing[0]}: no such file or folder{hint}")
    paths = [Path(name) for name in names]
    return [(detect(path) if format == "auto" else format, path) for path in paths]


def _import_one(
    catalog: "Catalog", format: str, path: Path, name: str, report: "ImportReport"
) -> None:
    from tutti.tasks.exchange import IMPORTERS, ImportOrigin, load
    from tutti.tasks.runs import code_version, describe_machine

    about = {"machine": json.dumps(describe_machine()), "code_version": code_version()}
    with ExitStack() as stack:
        source = IMPORTERS[format](path, name or _own_name(path))
        if sys.stderr.isatty():
            source = _with_progress(source, path, stack)
        load(catalog, source, format, origin=ImportOrigin(path, about), report=report)


def _own_name(path: Path) -> str:
    """A unique name of the file, because the name is part of every imported id."""
    from tutti.storage import content_hash

    whole = path.resolve()
    return f"{whole.parent.name}/{whole.name}@{content_hash(str(whole))[:6]}"


def _with_progress(
    source: "Iterator[ImportedItem]", path: Path, stack: ExitStack
) -> "Iterator[ImportedItem]":
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed:,}"))
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    task = stack.enter_context(bar).add_task(f"reading {path}", total=None)
    for item in source:
        yield item
        bar.advance(task)


def _show_report(report: "ImportReport", as_json: bool) -> None:
    if as_json:
        found = {name: getattr(report, name) for name in ("taken", "there", "records")}
        found |= {"records_there": report.records_there, "problems_total": report.problems_total}
        problems = [{**vars(problem), "file": str(problem.file)} for problem in report.problems]
        typer.echo(json.dumps({**found, "sweeps": report.sweeps, "problems": problems}))
        return
    for problem in report.problems[:LISTED]:
        typer.echo(_line(str(problem)), err=True)
    if (more := report.problems_total - LISTED) > 0:
        typer.echo(f"and {more} more", err=True)
    words = [f"{report.taken} attempts imported, {report.there} known already"]
    if report.records or report.records_there:
        words.append(f"{report.records} records imported, {report.records_there} known already")
    words.append(f"{report.problems_total} problems")
    if report.sweeps:
        some = [_line(name) for name in list(report.sweeps.values())[:3]]
        more_sweeps = "" if len(report.sweeps) <= 3 else f" and {len(report.sweeps) - 3} more"
        words.append(f"in {', '.join(some)}{more_sweeps}")
    typer.echo("; ".join(words))


def _line(text: str) -> str:
    return " ".join(shown(text).split("\n"))


@dataclass(frozen=True)
class AttemptChoice:
    """The attempts to export; all where nothing is chosen."""

    sweep: str
    """A sweep's id or name; empty for all."""
    cells: list[str]
    where: str | None
    """A condition in SQL."""


def _export(
    catalog: "Catalog",
    format: str,
    out: Path,
    chosen: AttemptChoice,
    force: bool,
) -> tuple[list[Path], int]:
    """The written files, and the number of attempts in them."""
    from tutti.cli.local import find_sweep
    from tutti.storage import connect, macros_named
    from tutti.tasks.exchange import export as write
    from tutti.tasks.exchange import stored_trials

    count = 0

    def counted(trials: "Iterator[ImportedAttempt]") -> "Iterator[ImportedAttempt]":
        nonlocal count
        for trial in trials:
            count += 1
            yield trial

    sweeps = [find_sweep(catalog, chosen.sweep)] if chosen.sweep else []
    _check_cells(catalog, chosen.cells)
    with closing(connect(catalog.home, macros_named(chosen.where or ""))) as connection:
        trials = counted(stored_trials(connection, chosen.where, sweeps=sweeps, cells=chosen.cells))
        files = write(format, trials, out, force)
    return files, count


def _newest_sweep(catalog: "Catalog") -> str:
    """The newest sweep that has attempts."""
    import sqlalchemy as sa

    from tutti.cli.failures import UsageError
    from tutti.storage import catalog as cat

    tried = cat.cells.join(
        cat.attempt_states, cat.attempt_states.c.cell_id == cat.cells.c.cell_id
    ).join(cat.sweeps, cat.sweeps.c.sweep_id == cat.cells.c.sweep_id)
    query = sa.select(cat.sweeps.c.sweep_id).select_from(tried)
    query = query.where(cat.attempt_states.c.state == "done")
    found = catalog.rows(query.order_by(cat.sweeps.c.created_at.desc()).limit(1))
    if not found:
        raise UsageError("no attempts yet; run `tutti demo` or `tutti import`")
    return str(found[0]["sweep_id"])


def _check_cells(catalog: "Catalog", cells: list[str]) -> None:
    import sqlalchemy as sa

    from tutti.cli.failures import UsageError
    from tutti.storage import catalog as cat

    for cell in cells:
        if not catalog.rows(sa.select(cat.cells.c.cell_id).where(cat.cells.c.cell_id == cell)):
            raise UsageError(f"no cell {cell!r}; tutti sql 'select * from cells' lists them")
