"""`tutti import`, `tutti export` and `tutti view`: exchange of logs with other programs.

In: paths, or a selection of attempts. Out: one line of counts on standard output (or JSON), and
each problem as ``file:line: field: reason`` on standard error.
"""

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tutti import storage
from tutti.cli.base.flow import progress_bar
from tutti.cli.base.verbs import AsJson, verb
from tutti.cli.store.exports import (
    EXPORTS,
    TRAINING_FORMATS,
    ExportRequest,
    export_attempts,
    export_training_set,
)
from tutti.cli.sweep.control import find_sweep
from tutti.errors import ExitCode, UsageError
from tutti.tasks import exchange
from tutti.tasks.exchange import inspect, swe_bench
from tutti.tasks.serving import processes
from tutti.terminal import shown

LISTED = 20  # problems printed as text; --json has all that the loader keeps
VIEW_PORT = 7575  # inspect view's own
VIEW_READY_S = 60.0
FORMATS = (
    "inspect, atif, verifiers, nemo-skills, lm-eval, tau2, thunderagent, swe-bench, "
    "mini-swe-agent, terminal-bench"
)
WORDS = {
    "sweep": "a sweep's id or name (the newest of that name)",
    "cell": "a cell's id; repeatable",
    "where": "SQL condition on the columns of attempts: \"status = 'ok'\"",
}

Sweep = Annotated[str, typer.Option(help=WORDS["sweep"])]
Cells = Annotated[list[str] | None, typer.Option("--cell", help=WORDS["cell"])]
Where = Annotated[str | None, typer.Option(help=WORDS["where"])]


@verb
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
) -> ExitCode:
    """Import other programs' logs into the store; known records are skipped."""
    jobs = _jobs(what)
    total = exchange.ImportReport()
    with storage.open_catalog() as catalog:
        if onto:
            sweep_id = find_sweep(catalog, onto)
            problems = _import_onto(catalog, jobs, sweep_id, as_json)
            return ExitCode.FAILED if problems and strict else ExitCode.DONE
        for format, path in jobs:
            _import_one(catalog, format, path, name, total)
    _show_report(total, as_json)
    took = total.taken + total.there + total.records + total.records_there
    failed = not took or (strict and total.problems_total > 0)
    return ExitCode.FAILED if failed else ExitCode.DONE


@verb
def export(
    format: Annotated[
        str,
        typer.Argument(
            help="inspect (a .eval log per cell), atif, thunderagent (a sweep's logs and "
            "summaries), nemo-skills (a sweep's output files and metrics.json), swe-bench (a "
            "sweep's preds.json), or parquet (a file per table); with --training-set: "
            + TRAINING_FORMATS
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
    narrowed = bool(cell or where)
    if training_set or format in TRAINING_FORMATS.split(", "):
        done = export_training_set(training_set, format, out, narrowed or bool(sweep), force)
    elif format not in EXPORTS:
        raise UsageError(f"no export format {format!r}; known: {', '.join(EXPORTS)}")
    elif narrowed and format not in exchange.EXPORTERS:
        raise UsageError(
            f"{format} exports whole sweeps; use --sweep instead of --cell and --where"
        )
    else:
        with storage.open_catalog() as catalog:
            needs_sweep = format not in (*exchange.EXPORTERS, "parquet")
            sweep_id = find_sweep(catalog, sweep) if sweep else None
            if needs_sweep and sweep_id is None:
                sweep_id = _newest_sweep(catalog)
            request = ExportRequest(catalog, out, force, sweep_id, cell or (), where, window)
            done = EXPORTS[format](request)
    for note in done.notes:
        typer.echo(note, err=True)
    typer.echo(json.dumps(done.content) if as_json else done.words)


@verb
def view(
    sweep: Annotated[str, typer.Option(help=WORDS["sweep"] + " (the newest)")] = "",
    cell: Cells = None,
    where: Where = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="the viewer's port")] = VIEW_PORT,
    host: Annotated[str, typer.Option(help="the viewer's address")] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Show trajectories in `inspect view` until Ctrl-C."""
    inspect.require_inspect()
    processes.claim_port(port, f"`--port {port + 1}`, for example")
    with storage.open_catalog() as catalog:
        sweep_id = find_sweep(catalog, sweep) if sweep else None
        if not (sweep or cell or where):
            sweep_id = _newest_sweep(catalog)
        key = storage.content_hash([str(sweep_id), cell or [], where])
        folder = catalog.home.root / "exports" / key
        for file in folder.glob("*.eval"):  # of an earlier view: the store may have changed
            file.unlink()
        request = ExportRequest(catalog, folder, True, sweep_id, cell or (), where)
        content = export_attempts("inspect", request).content
        shown = {"url": f"http://{host}:{port}/", "folder": str(folder)}
        shown["attempts"] = content["attempts"]
        count = f"{content['attempts']} attempts in {len(content['files'])} logs"
        words = f"{count} at {shown['url']}\nCtrl-C ends it."
        _serve_view(catalog, folder, host, port, json.dumps(shown) if as_json else words)


def _serve_view(catalog: "storage.Catalog", folder: Path, host: str, port: int, words: str) -> None:
    """Run `inspect view` until a signal. Raises ServingError if it ends by itself."""
    command = [sys.executable, "-m", "inspect_ai", "view", "start", "--log-dir", str(folder)]
    # Otherwise it would write files to the user's home.
    own = {name: str(folder.parent / ".inspect") for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME")}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with processes.Child(
            "inspect-view", [*command, "--host", host, "--port", str(port)], own, catalog
        ) as child:
            near = "127.0.0.1" if host in ("0.0.0.0", "::") else host
            child.wait_ready(lambda: processes.answers(f"http://{near}:{port}/"), VIEW_READY_S)
            print(words, flush=True)
            while True:
                child.check()
                time.sleep(0.2)
    except KeyboardInterrupt:
        return


def _jobs(what: list[str]) -> list[tuple[str, Path]]:
    given = what[0] in (*exchange.IMPORTERS, "auto")
    format, names = (what[0], what[1:]) if given else ("auto", what)
    if not names:
        raise UsageError(f"no path to import; give one after the format: {format} PATH")
    if missing := [name for name in names if not Path(name).exists()]:
        hint = "" if given else f" (formats: {FORMATS})"
        raise UsageError(f"{missing[0]}: no such file or folder{hint}")
    paths = [Path(name) for name in names]
    return [(exchange.detect(path) if format == "auto" else format, path) for path in paths]


def _import_one(
    catalog: "storage.Catalog",
    format: str,
    path: Path,
    name: str,
    report: "exchange.ImportReport",
) -> None:
    from tutti.tasks.platform.progress import code_version, describe_machine

    if not name:  # unique, because the name is part of every imported id
        whole = path.resolve()
        digest = storage.content_hash(str(whole))[:6]
        name = f"{whole.parent.name}/{whole.name}@{digest}"
    about = {"machine": json.dumps(describe_machine()), "code_version": code_version()}
    with progress_bar(f"reading {path}") as show:

        def items() -> "Iterator[exchange.ImportedItem]":
            for count, item in enumerate(exchange.IMPORTERS[format](path, name), 1):
                yield item
                show(count, 0)

        origin = exchange.ImportOrigin(path, about)
        exchange.load(catalog, items(), format, origin=origin, report=report)


def _import_onto(
    catalog: "storage.Catalog", jobs: list[tuple[str, Path]], sweep_id: str, as_json: bool
) -> int:
    """Add the reports' scores to a sweep's attempts; return the number of problems. Raises
    UsageError for other formats, StoreError."""
    if wrong := [format for format, _ in jobs if format != "swe-bench"]:
        raise UsageError(f"--onto takes reports of swe-bench; {wrong[0]} is imported without it")
    problems = 0
    for _, path in jobs:
        done = swe_bench.add_verdicts(catalog, path, sweep_id)
        problems += len(done.issues)
        if as_json:
            counts = {name: getattr(done, name) for name in ("added", "known", "unmatched")}
            issues = [str(each) for each in done.issues]
            typer.echo(json.dumps({"sweep_id": sweep_id, **counts, "problems": issues}))
            continue
        for issue in done.issues[:LISTED]:
            typer.echo(str(issue), err=True)
        words = f"{done.added} scores added to {sweep_id}, {done.known} known already"
        more = f"; {len(done.unmatched)} instances are not in the sweep" if done.unmatched else ""
        typer.echo(words + more)
    return problems


def _show_report(report: "exchange.ImportReport", as_json: bool) -> None:
    if as_json:
        counts = ("taken", "there", "records", "records_there", "problems_total")
        found = {name: getattr(report, name) for name in counts}
        problems = [{**vars(problem), "file": str(problem.file)} for problem in report.problems]
        typer.echo(json.dumps({**found, "sweeps": report.sweeps, "problems": problems}))
        return
    for problem in report.problems[:LISTED]:
        typer.echo(_on_one_line(problem), err=True)
    if (more := report.problems_total - LISTED) > 0:
        typer.echo(f"and {more} more", err=True)
    words = [f"{report.taken} attempts imported, {report.there} known already"]
    if report.records or report.records_there:
        words.append(f"{report.records} records imported, {report.records_there} known already")
    words.append(f"{report.problems_total} problems")
    if report.sweeps:
        some = [_on_one_line(name) for name in list(report.sweeps.values())[:3]]
        more_sweeps = "" if len(report.sweeps) <= 3 else f" and {len(report.sweeps) - 3} more"
        words.append(f"in {', '.join(some)}{more_sweeps}")
    typer.echo("; ".join(words))


def _on_one_line(text: object) -> str:
    return shown(str(text)).replace("\n", " ")


def _newest_sweep(catalog: "storage.Catalog") -> str:
    import sqlalchemy as sa

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
