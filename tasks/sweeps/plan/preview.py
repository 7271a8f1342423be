"""What a suite would do, without starting anything: ``tutti sweep plan``."""

from pathlib import Path

from tutti.storage import Catalog, open_catalog
from tutti.tasks.progress import StageLog
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.plan.estimate import Outlook, outlook_of
from tutti.tasks.sweeps.plan.plan import make_plan
from tutti.tasks.sweeps.plan.roles import other_models, roles_of
from tutti.tasks.sweeps.plan.task_set import TaskSet, made_tasks, read_set
from tutti.tasks.sweeps.run import check_names, open_bench
from tutti.tasks.sweeps.spec import STDLIB, Suite, SuiteError, parts, sweep_id_of
from tutti.tasks.synthesis import find_made


async def outlook(suite: Suite, models: Path) -> tuple[Outlook, ...]:
    """What running `suite` now would do: one for each of its benchmarks and models.

    Raises RegistryError, BenchmarkError, and SuiteError where its tasks are yet to be made.
    """
    found = []
    every = parts(suite)
    check_names(pick_models(models, dict.fromkeys(part.model for part in every)))
    with open_catalog() as catalog:
        for part in every:
            others = other_models(part)
            async with open_bench(
                part.model, models, None, catalog, StageLog(), others=others
            ) as bench:
                task_set, index_id = _tasks(part, catalog)
                served = bench.engine.address.served_name
                ids = (task_set.task_set_id, index_id, bench.engine.engine_id, bench.model_id)
                plan = make_plan(
                    part,
                    task_set.problems,
                    *ids,
                    served,
                    model=bench.model,
                    roles=roles_of(part, bench.served),
                    whole=suite if suite.is_grid else None,
                    sweep_id=sweep_id_of(suite),
                )
                found.append(outlook_of(plan, catalog))
    return tuple(found)


def _tasks(suite: Suite, catalog: Catalog) -> tuple[TaskSet, str | None]:
    """What the suite measures, and the index that it searches."""
    if suite.benchmark != STDLIB:
        return read_set(suite), None
    found = find_made(catalog, suite.tasks)
    if found is None:
        raise SuiteError(
            "tasks: the suite's task set is not made yet, so nothing is known of its cells; "
            "`tutti sweep run` makes it, and so does `tutti synth` with its numbers"
        )
    return made_tasks(found[0], catalog), found[1]
