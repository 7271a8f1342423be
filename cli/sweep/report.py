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
from typing import Annotated, Any

import typer

from tutti import storage
from tutti.cli.base.failures import UsageError
from tutti.cli.base.verbs import verb
from tutti.cli.sweep.control import find_sweep
from tutti.tasks import reporting
from tutti.tasks.platform import progress
from tutti.tasks.sweeps import analysis, results


@verb
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
    kind = sweep.partition(":")[0] if ":" in sweep and not any(compare) else ""
    with (
        redirect_stdout(sys.stderr) if as_json else nullcontext(),
        storage.open_catalog() as catalog,
    ):
        if kind == "task_set":
            log = progress.StageLog()
            page = asyncio.run(reporting.publish_task_set(sweep, catalog, log, out))
            rows = {"page": str(page.page), "findings": page.findings}
        elif kind in ("checkpoint", "adapter"):
            files = reporting.ReportFiles(out, figures)
            log = progress.StageLog()
            written = asyncio.run(reporting.publish_training(sweep, catalog, log, files))
            rows = _page(written) | {
                "card": dict(written.training.card),
                "steps": [dict(row) for row in written.training.steps],
            }
        else:
            rows = _of_sweep(_write(sweep, compare, reporting.ReportFiles(out, figures), catalog))
    if as_json:
        typer.echo(json.dumps(rows, default=str))


def _write(
    sweep: str,
    compare: tuple[str, str],
    files: "reporting.ReportFiles",
    catalog: "storage.Catalog",
) -> "reporting.Report":
    if sweep and any(compare):
        raise UsageError("give a sweep or --compare A B, not both")
    log = progress.StageLog()
    if any(compare):
        pair = find_sweep(catalog, compare[0]), find_sweep(catalog, compare[1])
        title = f"Sweep {compare[1]} (B) against {compare[0]} (A)"
        return asyncio.run(reporting.publish_comparison(pair, title, catalog, log, files))
    sweep_id, title = find_sweep(catalog, sweep), f"Sweep {sweep}".strip()
    return asyncio.run(reporting.publish_report([sweep_id], title, catalog, log, files=files))


def _page(written: "reporting.Report | reporting.TrainingReport") -> dict[str, Any]:
    return {
        "page": str(written.page),
        "plots": {name: str(path) for name, path in written.plots.items()},
        "alarms": written.alarms,
        "findings": written.findings,
        "missing": written.gaps,
    }


def _of_sweep(written: "reporting.Report") -> dict[str, Any]:
    return _page(written) | {
        "cells": [asdict(cell) for cell in written.cells],
        "metrics": [asdict(each) for each in written.metrics],
        "comparisons": [_compared(each) for each in written.compared],
        "efficiency": [_of(each.point, each, "point") for each in written.worth],
        "noise": [_of(each.cell, each, "cell") for each in written.noise],
        "failures": [asdict(each) for each in written.failed],
    }


def _compared(row: "analysis.CellComparison") -> dict[str, Any]:
    same = ("where", "name_a", "name_b", "n", "left_out", "mean_a", "mean_b", "verdict", "reason")
    other = {"figure": row.metric, "change": row.difference, "p": row.p_holm}
    other |= {"low": row.ci_low, "high": row.ci_high}
    return {name: getattr(row, name) for name in same} | other


def _of(
    which: "results.CellSummary | results.LoadPoint",
    row: "reporting.Efficiency | reporting.Noise",
    left_out: str,
) -> dict[str, Any]:
    names = ("benchmark", "model", "policy", "concurrency")
    figures = {key: value for key, value in asdict(row).items() if key != left_out}
    return {name: getattr(which, name) for name in names} | figures
