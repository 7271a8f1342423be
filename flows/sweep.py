"""The flow `eval-sweep`: measure a suite's cells, report them.

Run: ``tutti sweep run SUITE``, or from the Prefect UI. What was measured before is reused.
"""

from pathlib import Path

from prefect import flow

from flows.bench import MODELS, open_bench
from flows.cells import run_sweep
from flows.library import library_of, task_set_of
from flows.publish import publish_report
from flows.stages import StageLog
from storage import open_catalog
from tasks.runs import recorded_run
from tasks.sweeps.roles import other_models
from tasks.sweeps.suite import Suite

DEFAULT_SUITE = Suite(name="eval", concurrency=(2, 8))


@flow(name="eval-sweep")
async def eval_sweep(suite: Suite = DEFAULT_SUITE, models: Path = MODELS) -> str:
    """Measure a suite and report it.

    Args:
        suite: What to measure: task set, model, policies, concurrency, repeats.
        models: The model registry file.

    Returns the sweep's id.
    """
    log = StageLog()
    with open_catalog() as catalog:
        parameters = {"suite": suite.model_dump(mode="json"), "models": str(models)}
        with recorded_run(catalog, "eval-sweep", parameters) as run_id:
            async with library_of(suite, catalog, log) as library:
                task_set = await task_set_of(suite, library, catalog, log)
                others = other_models(suite)
                async with open_bench(
                    suite.model, models, library, catalog, log, others=others
                ) as bench:
                    plan = await run_sweep(suite, task_set, bench, catalog, run_id, log)
            await publish_report([plan.sweep_id], f"Sweep {suite.name}", catalog, log)
    return plan.sweep_id
