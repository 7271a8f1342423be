"""`tutti report`: an HTML page about one sweep, one training, or a comparison of two sweeps.

In: sweeps by id or name, or the id of a checkpoint or a task set. Out: a folder with `index.html`,
and on request the figures as files.
"""

import asyncio
import json
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tutti.cli.failures import guarded

if TYPE_CHECKING:
    from tutti.tasks.reporting import (
        CellSummary,
        Efficiency,
        LoadPoint,
        Noise,
        Report,
        TrainingReport,
    )


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(report)


def report(
    sweep: Annotated[
        str,
        typer.Argument(
            help="a sweep's id or name (the newest), or the id of a checkpoint or a task set"
        ),
    ] = "",
    compare: Annotated[
        tuple[str, str], typer.Option(metavar="A B", help="compare sweep B with sweep A instead")
    ] = ("", ""),
    out: Annotated[Path | None, typer.Option(help="output folder (in the store)")] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="also write each figure as PNG and SVG")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="print paths and all rows as JSON")
    ] = False,
) -> None:
    """Report a sweep, a training or a task set: findings, and an HTML page with figures."""

    def work() -> None:
        kind = sweep.partition(":")[0] if ":" in sweep and not any(compare) else ""
        with redirect_stdout(sys.stderr) if as_json else nullcontext():
            if kind == "task_set":
                rows = _of_task_set(sweep, out)
            elif kind in ("checkpoint", "adapter"):
                rows = _of_training(_write_training(sweep, out, figures))
            else:
                rows = _as_json(_write(sweep, compare, out, figures))
        if as_json:
            typer.echo(json.dumps(rows, default=str))

    guarded(work)


def _write(sweep: str, compare: tuple[str, str], out: Path | None, figures: bool) -> "Report":
    from tutti.cli.failures import UsageError
    from tutti.cli.local import find_sweep
    from tutti.storage import open_catalog
    from tutti.tasks.progress import StageLog
    from tutti.tasks.reporting import (
        ReportFiles,
        SweepPair,
        publish_comparison,
        publish_report,
    )

    if sweep and any(compare):
        raise UsageError("give a sweep or --compare A B, not both")
    log, files = StageLog(), ReportFiles(out, figures)
    with open_catalog() as catalog:
        if any(compare):
            pair = SweepPair(*(find_sweep(catalog, each) for each in compare))
            title = f"Sweep {compare[1]} (B) against {compare[0]} (A)"
            return asyncio.run(publish_comparison(pair, title, catalog, log, files))
        sweep_id = find_sweep(catalog, sweep)
        title = f"Sweep {sweep}".strip()
        return asyncio.run(publish_report([sweep_id], title, catalog, log, files=files))


def _write_training(checkpoint_id: str, out: Path | None, figures: bool) -> "TrainingReport":
    from tutti.storage import open_catalog
    from tutti.tasks.progress import StageLog
    from tutti.tasks.reporting import ReportFiles, publish_training

    with open_catalog() as catalog:
        files = ReportFiles(out, figures)
        return asyncio.run(publish_training(checkpoint_id, catalog, StageLog(), files))


def _of_task_set(task_set_id: str, out: Path | None) -> dict[str, Any]:
    from tutti.storage import open_catalog
    from tutti.tasks.progress import StageLog
    from tutti.tasks.reporting import publish_task_set

    with open_catalog() as catalog:
        written = asyncio.run(publish_task_set(task_set_id, catalog, StageLog(), out))
    return {"page": str(written.page), "findings": written.findings}


def _of_training(written: "TrainingReport") -> dict[str, Any]:
    return {
        "page": str(written.page),
        "plots": {name: str(path) for name, path in written.plots.items()},
        "alarms": written.alarms,
        "findings": written.findings,
        "missing": written.gaps,
        "card": dict(written.training.card),
        "steps": [dict(row) for row in written.training.steps],
    }


def _as_json(written: "Report") -> dict[str, Any]:
    return {
        "page": str(written.page),
        "plots": {name: str(path) for name, path in written.plots.items()},
        "alarms": written.alarms,
        "findings": written.findings,
        "missing": written.gaps,
        "cells": [asdict(cell) for cell in written.cells],
        "metrics": [asdict(each) for each in written.metrics],
        "comparisons": [asdict(each) for each in written.compared],
        "efficiency": [_of(each.point, each, "point") for each in written.worth],
        "noise": [_of(each.cell, each, "cell") for each in written.noise],
        "failures": [asdict(each) for each in written.failed],
    }


def _of(
    which: "CellSummary | LoadPoint", row: "Efficiency | Noise", left_out: str
) -> dict[str, Any]:
    """A row with its cell's names in place of the cell's figures."""
    names = ("benchmark", "model", "policy", "concurrency")
    figures = {key: value for key, value in asdict(row).items() if key != left_out}
    return {name: getattr(which, name) for name in names} | figures
