"""Show a sweep's results: a table in the terminal, a page with plots, Prefect artifacts."""

import asyncio
import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from flows.progress import StageProgress
from flows.stages import StageLog, in_flow_run
from storage import Catalog, connect
from tasks.reporting import Report, build_report, family_table, markdown_table, terminal_table
from tasks.runs import code_version, describe_machine


async def publish_report(
    sweep_ids: Sequence[str],
    title: str,
    catalog: Catalog,
    log: StageLog,
    notes: Mapping[str, str] | None = None,
    out: Path | None = None,
) -> Report:
    """Build the report of `sweep_ids`, print its table, leave Prefect artifacts in a flow run."""
    folder = out or catalog.home.artifact_folder(f"report:{sweep_ids[0].split(':')[1]}")

    async def work(progress: StageProgress) -> Report:
        return await asyncio.to_thread(_build, sweep_ids, folder, title, catalog, notes or {})

    report = await log.run("report", work)
    console = Console()
    console.print(terminal_table(report.cells))
    if report.scores:
        console.print(family_table(report.scores))
    console.print(f"report: {report.page}")
    if in_flow_run():
        await _leave_artifacts(report, _page_link(report.page, catalog.home.artifacts))
    return report


def _build(
    sweep_ids: Sequence[str], folder: Path, title: str, catalog: Catalog, notes: Mapping[str, str]
) -> Report:
    machine = describe_machine()
    facts = {
        "machine": "{cores} cores, {memory_gib} GiB, {processor}".format(**machine),
        "code": code_version(),
        "sweep": ", ".join(sweep_ids),
    }
    connection = connect(catalog.home)
    try:
        return build_report(connection, sweep_ids, folder, title, {**facts, **notes})
    finally:
        connection.close()


def _page_link(page: Path, artifacts: Path) -> str:
    """Where `make ui` serves the page: a browser opens no file:// link on Prefect's pages."""
    served = os.environ.get("TUTTI_ARTIFACTS_URL")
    if not served or not page.is_relative_to(artifacts):
        return page.as_uri()
    return f"{served}/{page.relative_to(artifacts).as_posix()}"


async def _leave_artifacts(report: Report, link: str) -> None:
    from prefect.artifacts import (
        acreate_image_artifact,
        acreate_link_artifact,
        acreate_markdown_artifact,
    )

    await acreate_markdown_artifact(markdown_table(report.cells), "results", "Result table")
    await acreate_link_artifact(link, "report", "report", "The report's page")
    for name, path in report.plots.items():
        data = base64.b64encode(path.read_bytes()).decode()
        key = "plot-" + name.replace("_", "-")
        await acreate_image_artifact(f"data:image/png;base64,{data}", key, name)
