"""Show a task set: its page, sentences on the terminal, and a link of a flow run."""

import asyncio
from contextlib import closing
from pathlib import Path

from tutti.storage import Catalog, connect
from tutti.tasks.progress import StageLog, StageProgress, in_flow_run, leave_page, stage
from tutti.tasks.reporting.publish import page_address
from tutti.tasks.reporting.task_sets.page import TaskSetReport, build_task_set_report


async def publish_task_set(
    task_set_id: str, catalog: Catalog, log: StageLog, out: Path | None = None
) -> TaskSetReport:
    """Write the page of a task set; in a flow run leave a link to it. Raises UsageError."""
    report = await write_task_set_page(log, task_set_id, catalog, out)
    for sentence in report.findings:
        log.console.print(f"- {sentence}", markup=False, highlight=False)
    log.console.print(f"report: {report.page}", soft_wrap=True, markup=False, highlight=False)
    if in_flow_run():
        address = page_address(report.page, catalog.home.artifacts)
        link = f"[The set's page]({address})" if address else str(report.page)
        said = "\n".join(f"- {each}" for each in report.findings)
        await leave_page(f"{said}\n\n{link}\n", "results", "What was made")
    return report


@stage(name="report")
async def write_task_set_page(
    _: StageProgress, task_set_id: str, catalog: Catalog, out: Path | None
) -> TaskSetReport:
    """Write the page, in a thread."""
    folder = out or catalog.home.artifact_folder(f"report:{task_set_id.replace(':', '-')}")

    def write() -> TaskSetReport:
        with closing(connect(catalog.home)) as connection:
            return build_task_set_report(connection, task_set_id, folder)

    return await asyncio.to_thread(write)
