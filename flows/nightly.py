"""The flow `nightly`: a night file's stages on a schedule, judged against the last accepted night.

Run: on its schedule while `make ui` runs, by its form, or ``tutti sweep run nightly``.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from prefect import flow

from tutti.flows.sweep import measure
from tutti.tasks.nights import (
    Night,
    NightContext,
    NightFile,
    Record,
    StageResult,
    begin_night,
    ended,
    enter_night,
    judge_night,
    last_accepted_night,
    measure_stages,
    night_dict,
    night_records,
    nights_due,
    planned_for,
    read_night,
    tell,
    tell_failure,
)
from tutti.tasks.platform import MODELS, SUITES
from tutti.tasks.platform.progress import Run, in_flow_run, open_run
from tutti.tasks.reporting import publish_report
from tutti.tasks.sweeps.run import BudgetTracker
from tutti.tasks.sweeps.spec import Suite


@flow(name="nightly")
async def nightly(
    suite_file: Path = SUITES / "nightly.yaml", models: Path = MODELS, night: date | None = None
) -> Any:
    """Measure the missing part of a night, judge it, and notify.

    Args:
       suite_file: A night file, or a suite.
       models: The model registry file.
       night: The night's date; by default that of the run's scheduled time.

    Returns the night's result, as `tutti.tasks.nights.notify.night_dict`; for a flow run its final
    state. Raises SuiteError and RegistryError for an invalid file.
    """
    last = await _nights(suite_file, models, night)
    return ended(last) if in_flow_run() else last


async def _nights(suite_file: Path, models: Path, night: date | None) -> dict[str, Any]:
    """Run the nights that are due; return the last. Notifies of each once, also of an error."""
    untold: Night | None = Night(suite_file.stem, night or planned_for().date())
    parameters: dict[str, Any] = {"suite_file": str(suite_file), "models": str(models)}
    parameters |= {"night": None if night is None else night.isoformat()}
    try:
        file = read_night(suite_file)
        with open_run("nightly", parameters) as run:
            known = night_records(run.catalog, file.name)
            due = nights_due(file, known, planned_for(), datetime.now(UTC), night)
            spending = BudgetTracker(file.budget)
            for each in due.nights:
                untold = each
                record, results = await _measured(file, each, models, spending, due.notes, run)
                untold = None
                last = await _published(record, results, due.notes, run)
        return last
    except Exception as error:
        if untold is not None:
            await tell_failure(untold, error)
        raise


async def _measured(
    file: NightFile,
    night: Night,
    models: Path,
    spending: BudgetTracker,
    notes: Sequence[str],
    run: Run,
) -> tuple[Record, Sequence[StageResult]]:
    """Run one night from its first sample to its verdict; return it with the stages' results."""
    catalog, log = run.catalog, run.log

    async def measured(suite: Suite) -> str:
        return await measure(suite, models, run, publish=False, whole=spending)

    for note in notes:
        log.console.print(f"[yellow]{note}[/]", soft_wrap=True)
    begin_night(catalog, night)
    before = last_accepted_night(catalog, night)
    context = NightContext(file, night, before, catalog, spending)
    results = await measure_stages(context, measured)
    return enter_night(catalog, judge_night(night, results, before)), results


async def _published(
    record: Record, results: Sequence[StageResult], notes: Sequence[str], run: Run
) -> dict[str, Any]:
    """Write a night's report and notify, even if the report cannot be written."""
    try:
        if record.sweeps:
            title = f"Night {record.night.label}"
            await publish_report(list(record.sweeps.values()), title, run.catalog, run.log)
    except Exception as error:
        await tell(record.without_report(error), results, notes, run.log)
        raise
    await tell(record, results, notes, run.log)
    return night_dict(record, results, notes)
