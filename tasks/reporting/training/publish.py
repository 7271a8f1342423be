"""Show a training: its page, sentences on the terminal, and artifacts of a flow run."""

import asyncio
from contextlib import closing
from pathlib import Path

from rich.console import Console

from tutti.storage import Catalog, connect
from tutti.tasks.progress import StageLog, StageProgress, in_flow_run, leave_page, stage
from tutti.tasks.reporting.focus import MACROS_USED
from tutti.tasks.reporting.publish import ReportFiles, page_address
from tutti.tasks.reporting.training.page import TrainingReport, build_training_report
from tutti.tasks.reporting.training.record import steps_recorded


async def publish_training(
    checkpoint_id: str, catalog: Catalog, log: StageLog, files: ReportFiles | None = None
) -> TrainingReport:
    """Write the page of a training and print what it says; in a flow run leave a link to it.

    Raises UsageError for a training whose steps the store does not have.
    """
    report = await write_training_page(log, checkpoint_id, catalog, files or ReportFiles())
    console = Console()
    for sentence in (*report.alarms, *report.findings):
        console.print(f"- {sentence}", markup=False, highlight=False)
    console.print(f"report: {report.page}", soft_wrap=True, markup=False, highlight=False)
    if in_flow_run():
        address = page_address(report.page, catalog.home.artifacts)
        link = f"[The training's page]({address})" if address else str(report.page)
        said = "\n".join(f"- {each}" for each in (*report.alarms, *report.findings))
        await leave_page(f"{said}\n\n{link}\n", "results", "What the training came to")
    return report


async def publish_if_recorded(checkpoint_id: str, catalog: Catalog, log: StageLog) -> None:
    """As `publish_training`; of a reused checkpoint whose steps were pruned it says so."""
    if steps_recorded(checkpoint_id, catalog.home):
        await publish_training(checkpoint_id, catalog, log)
    else:
        log.console.print(f"{checkpoint_id}: no page, its steps are no longer in the store")


@stage(name="report")
async def write_training_page(
    _: StageProgress, checkpoint_id: str, catalog: Catalog, files: ReportFiles
) -> TrainingReport:
    """Write the page, in a thread."""
    out = files.out or training_folder(checkpoint_id, catalog)

    def write() -> TrainingReport:
        with closing(connect(catalog.home, MACROS_USED)) as connection:
            return build_training_report(connection, checkpoint_id, out, files=files.figures)

    return await asyncio.to_thread(write)


def training_folder(checkpoint_id: str, catalog: Catalog) -> Path:
    """Where a training's page lies in the store."""
    return catalog.home.artifact_folder(f"report:{checkpoint_id.replace(':', '-')}")
