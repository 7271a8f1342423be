"""The flow `eval-sweep`: measure a suite's cells and report them.

Run: ``tutti sweep run SUITE``, or from the Prefect UI. Existing measurements are reused.
"""

from pathlib import Path

from prefect import flow

from tutti.tasks.platform import MODELS
from tutti.tasks.platform.progress import Run, open_run
from tutti.tasks.reporting import publish_report
from tutti.tasks.sweeps.plan import SearchService
from tutti.tasks.sweeps.run import BudgetTracker, run_suite
from tutti.tasks.sweeps.spec import Suite

DEFAULT_SUITE = Suite(name="eval", concurrency=(2, 8))


@flow(name="eval-sweep")
async def eval_sweep(suite: Suite = DEFAULT_SUITE, models: Path = MODELS) -> str:
    """Measure a suite and report it.

    Args:
       suite: Task set, model, policies, concurrency and repeats.
       models: The model registry file.

    Returns the sweep's id.
    """
    parameters = {"suite": suite.model_dump(mode="json"), "models": str(models)}
    with open_run("eval-sweep", parameters) as run:
        return await measure(suite, models, run)


async def measure(
    suite: Suite,
    models: Path,
    run: Run,
    publish: bool = True,
    whole: BudgetTracker | None = None,
) -> str:
    """Measure the missing cells of a suite and report it, within `whole`, the spending that
    includes this one; return the sweep's id."""
    async with SearchService.of_suites(suite.parts(), run.catalog, run.log) as library:
        sweep_id = await run_suite(suite, models, library, run, whole)
    if publish:
        await publish_report([sweep_id], f"Sweep {suite.name}", run.catalog, run.log)
    return sweep_id
