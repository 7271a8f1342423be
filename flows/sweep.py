"""The flow `eval-sweep`: measure a suite's cells, report them.

Run: ``tutti sweep run SUITE``, or from the Prefect UI. What was measured before is reused.
"""

from itertools import groupby
from pathlib import Path

from prefect import flow

from tutti.tasks.project import MODELS
from tutti.tasks.reporting import publish_report
from tutti.tasks.runs import Run, open_run
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.plan import check_names, library_of, other_models, plan_of, task_set_of
from tutti.tasks.sweeps.run import Spending, enter_windows, open_bench, run_plan
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
    parameters = {"suite": suite.model_dump(mode="json"), "models": str(models)}
    with open_run("eval-sweep", parameters) as run:
        return await measure(suite, models, run)


async def measure(suite: Suite, models: Path, run: Run, publish: bool = True) -> str:
    """What is missing of a suite, part by part, and its report; returns the sweep's id."""
    every = parts(suite)
    check_names(pick_models(models, dict.fromkeys(part.model for part in every)))
    spending = Spending(suite.budget)
    sweep_id = ""
    async with library_of(every, run.catalog, run.log) as library:
        for model, of_model in groupby(every, key=lambda part: part.model):
            some = list(of_model)
            others = sorted({name for part in some for name in other_models(part)})
            entries = pick_models(models, (model, *others))
            async with open_bench(
                entries, library, run.catalog, run.log, engines=suite.engines
            ) as bench:
                for part in some:
                    task_set = await task_set_of(part, library, run.catalog, run.log)
                    plan = plan_of(part, bench.set_up(part, task_set), whole=suite)
                    await run_plan(plan, bench, run, spending)
                    sweep_id = plan.sweep_id
    enter_windows(suite, sweep_id, run.catalog)
    if publish:
        await publish_report([sweep_id], f"Sweep {suite.name}", run.catalog, run.log)
    return sweep_id
