"""Output of reports of sweeps, trainings and task sets: in the terminal, as page or artifact."""

import asyncio
import base64
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from rich.console import Console

from tutti.storage import Catalog, connect
from tutti.storage import catalog as cat
from tutti.tasks.platform.progress import (
    StageLog,
    StageProgress,
    code_version,
    describe_machine,
    in_flow_run,
    leave_page,
    stage,
)
from tutti.tasks.reporting.compared import build_comparison
from tutti.tasks.reporting.figures.html import PageReport
from tutti.tasks.reporting.page import Report, build_report
from tutti.tasks.reporting.task_set import build_task_set_report
from tutti.tasks.reporting.terminal import results_page, terminal_summary
from tutti.tasks.reporting.training.page import TrainingReport, build_training_report
from tutti.tasks.reporting.training.record import steps_recorded
from tutti.tasks.serving.engines import known_cache
from tutti.tasks.sweeps.results import MACROS_USED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class ReportFiles:
    out: Path | None = None
    figures: bool = False
    """Whether the figures are written as PNG and SVG beside the page; in a flow run always."""


async def publish_report(
    sweep_ids: Sequence[str],
    title: str,
    catalog: Catalog,
    log: StageLog,
    notes: Mapping[str, str] | None = None,
    files: ReportFiles = ReportFiles(),
) -> Report:
    """Build the report of `sweep_ids`, print its tables, create Prefect artifacts in a flow run."""
    folder = files.out or _folder(catalog, sweep_ids[0].split(":")[1])
    build = partial(build_report, sweep_ids=sweep_ids, out=folder, title=title)
    facts = _facts(catalog, sweep_ids) | dict(notes or {})
    return await _publish(build, facts, catalog, log, files.figures)


async def publish_comparison(
    sweeps: tuple[str, str],
    title: str,
    catalog: Catalog,
    log: StageLog,
    files: ReportFiles = ReportFiles(),
) -> Report:
    """Build the page that judges the second sweep against the first; else as `publish_report`."""
    folder = files.out or _folder(catalog, "-".join(each.split(":")[1] for each in sweeps))
    build = partial(build_comparison, sweeps=sweeps, out=folder, title=title)
    return await _publish(build, _facts(catalog, sweeps), catalog, log, files.figures)


async def _publish(
    build: Callable[..., Report],
    facts: Mapping[str, str],
    catalog: Catalog,
    log: StageLog,
    files: bool,
) -> Report:
    write = partial(build, notes=facts, files=files or in_flow_run())
    report: Report = await write_report(log, write, catalog)
    terminal_summary(report, Console())
    address = page_address(report.page, catalog.home.artifacts)
    await leave_page(results_page(report, address), "results", "Results, and the report's page")
    return report


async def publish_training(
    checkpoint_id: str, catalog: Catalog, log: StageLog, files: ReportFiles = ReportFiles()
) -> TrainingReport:
    """Write the page of a training and print its findings; in a flow run leave a link to it.

    Raises UsageError for a training whose steps the store does not have.
    """
    out = files.out or _folder(catalog, checkpoint_id)
    build = partial(
        build_training_report, checkpoint_id=checkpoint_id, out=out, files=files.figures
    )
    report: TrainingReport = await write_report(log, build, catalog)
    await _show(report, catalog, Console(), "The training's page", "The results of the training")
    return report


async def publish_if_recorded(checkpoint_id: str, catalog: Catalog, log: StageLog) -> None:
    """Publish the training, or print that the steps of a reused checkpoint were pruned."""
    if steps_recorded(checkpoint_id, catalog.home):
        await publish_training(checkpoint_id, catalog, log)
    else:
        log.console.print(f"{checkpoint_id}: no page, its steps are no longer in the store")


async def publish_task_set(
    task_set_id: str, catalog: Catalog, log: StageLog, out: Path | None = None
) -> PageReport:
    """Write the page of a task set; in a flow run create a link to it. Raises UsageError."""
    folder = out or _folder(catalog, task_set_id)
    build = partial(build_task_set_report, task_set_id=task_set_id, out=folder)
    report: PageReport = await write_report(log, build, catalog)
    await _show(report, catalog, log.console, "The set's page", "The task set")
    return report


async def _show(
    report: PageReport, catalog: Catalog, console: Console, name: str, description: str
) -> None:
    sentences = [f"- {each}" for each in (*report.alarms, *report.findings)]
    for line in (*sentences, f"report: {report.page}"):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    address = page_address(report.page, catalog.home.artifacts)
    link = f"[{name}]({address})" if address else str(report.page)
    await leave_page("\n".join([*sentences, "", link, ""]), "results", description)


@stage(name="report")
async def write_report(
    _: StageProgress, build: "Callable[[DuckDBPyConnection], Any]", catalog: Catalog
) -> Any:
    """Write a page by `build`, in a thread; in a flow run create artifacts of a sweep's figures."""

    def write() -> Any:
        with closing(connect(catalog.home, MACROS_USED)) as connection:
            return build(connection)

    report = await asyncio.to_thread(write)
    if isinstance(report, Report) and in_flow_run():
        await _leave_figures(report, page_address(report.page, catalog.home.artifacts))
    return report


def _folder(catalog: Catalog, artifact_id: str) -> Path:
    return catalog.home.artifact_folder(f"report:{artifact_id.replace(':', '-')}")


def page_address(page: Path, artifacts: Path) -> str | None:
    """The address at which `make ui` serves a page of the store, by default on port 4201.
    None for a page elsewhere.

    A browser follows no ``file://`` link on Prefect's pages.
    """
    if not page.is_relative_to(artifacts):
        return None
    prefect = urlsplit(os.environ.get("PREFECT_API_URL", ""))
    port = prefect.port if prefect.hostname in ("127.0.0.1", "localhost") else None
    default = f"http://127.0.0.1:{(port or 4200) + 1}"
    served = os.environ.get("TUTTI_ARTIFACTS_URL") or default
    return f"{served}/{page.relative_to(artifacts).as_posix()}"


async def _leave_figures(report: Report, address: str | None) -> None:
    """Create the figures and the link on the stage's task run. Prefect shows a run's artifacts in
    no order, but those of the flow run, which are the results, before those of its tasks."""
    from prefect.artifacts import acreate_image_artifact, acreate_link_artifact

    if address is not None:
        await acreate_link_artifact(address, "report", "report", "The report's page")
    for name, path in report.plots.items():
        data = base64.b64encode(path.read_bytes()).decode()
        key = "plot-" + name.replace("_", "-")
        await acreate_image_artifact(f"data:image/png;base64,{data}", key, name)


def _facts(catalog: Catalog, sweep_ids: Sequence[str]) -> dict[str, str]:
    """When the sweeps' cells ran (days in UTC), their benchmarks, models and samples; the KV caches
    of the models' engines, estimated and reported, where known; the command, if it is tutti's."""
    cells = cat.cells.c
    current = cells.status.is_distinct_from(cat.SUPERSEDED)
    rows = catalog.rows(sa.select(cat.cells).where(cells.sweep_id.in_(sweep_ids), current))
    times = sorted(t for row in rows for t in (row["started_at"], row["ended_at"]) if t is not None)
    days = dict.fromkeys(f"{each:%Y-%m-%d}" for each in times[:1] + times[-1:])
    engines = {row["engine_id"]: row["model"] for row in rows if row["engine_id"]}
    known = {name: known_cache(catalog, engine).text for engine, name in engines.items()}
    caches = [f"{name}: {text.removeprefix('KV cache: ')}" for name, text in known.items() if text]
    is_ours = Path(sys.argv[0]).name == "tutti"
    facts = {
        "measured": " to ".join(days) or "not yet",
        "benchmark": ", ".join(sorted({row["benchmark"] for row in rows})),
        "model": ", ".join(sorted({row["model"] for row in rows})),
        "samples": f"{sum(row['samples'] or 0 for row in rows):,}",
        "KV cache": "; ".join(caches),
        "command": shlex.join(["tutti", *sys.argv[1:]]) if is_ours else "",
        "machine": "{cores} cores, {memory_gib} GiB, {processor}".format(**describe_machine()),
        "code": code_version(),
        "sweep": sweep_ids[0] if len(sweep_ids) == 1 else "",
    }
    return {name: fact for name, fact in facts.items() if fact}
