"""The flow `eval-sweep`: measure a suite's cells, report them.

Run: ``tutti sweep run SUITE``, or from the Prefect UI. What was measured before is reused.
"""

from itertools import groupby
from pathlib import Path

from prefect import flow

from tutti.storage import Catalog, open_catalog
from tutti.tasks.progress import StageLog
from tutti.tasks.project import MODELS
from tutti.tasks.reporting import publish_report
from tutti.tasks.runs import recorded_run
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.plan import library_of, other_models, task_set_of
from tutti.tasks.sweeps.run import Spending, check_names, enter_windows, open_bench, run_sweep
from tutti.tasks.sweeps.spec import Suite, parts

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
            return await measure(suite, models, catalog, run_id, log)


async def measure(
    suite: Suite, models: Path, catalog: Catalog, run_id: str, log: StageLog, publish: bool = True
) -> str:
    """What is missing of a suite, part by part, and its report; returns the sweep's id."""
    every, whole = parts(suite), suite if suite.is_grid else None
    check_names(pick_models(models, dict.fromkeys(part.model for part in every)))
    spending = Spending(suite.budget)
    sweep_id = ""
    async with library_of(every, catalog, log) as library:
        for model, of_model in groupby(every, key=lambda part: part.model):
            some = list(of_model)
            others = sorted({name for part in some for name in other_models(part)})
            async with open_bench(
                model, models, library, catalog, log, others=others, engines=suite.engines
            ) as bench:
                for part in some:
                    task_set = await task_set_of(part, library, catalog, log)
                    plan = await run_sweep(
                        part, task_set, bench, catalog, run_id, log, whole=whole, spending=spending
                    )
                    sweep_id = plan.sweep_id
    enter_windows(suite, sweep_id, catalog)
    if publish:
        await publish_report([sweep_id], f"Sweep {suite.name}", catalog, log)
    return sweep_id
