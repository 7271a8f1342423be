"""What a suite would do, without starting anything: ``tutti sweep plan``."""

from pathlib import Path

from flows.bench import open_bench
from flows.stages import StageLog
from storage import open_catalog
from tasks.sweeps.outlook import Outlook, outlook_of
from tasks.sweeps.plan import make_plan
from tasks.sweeps.roles import other_models, roles_of
from tasks.sweeps.suite import STDLIB, Suite, SuiteError
from tasks.sweeps.task_set import made_tasks, read_set
from tasks.synthesis.generate import find_made


async def outlook(suite: Suite, models: Path) -> Outlook:
    """What running `suite` now would do.

    Raises RegistryError, BenchmarkError, and SuiteError where its tasks are yet to be made.
    """
    with open_catalog() as catalog:
        index_id = None
        if suite.benchmark == STDLIB:
            found = find_made(catalog, suite.tasks)
            if found is None:
                raise SuiteError(
                    "tasks: the suite's task set is not made yet, so nothing is known of its "
                    "cells; `tutti sweep run` makes it, and so does `tutti synth` with its numbers"
                )
            task_set, index_id = made_tasks(found[0], catalog), found[1]
        else:
            task_set = read_set(suite)
        others = other_models(suite)
        async with open_bench(
            suite.model, models, None, catalog, StageLog(), others=others
        ) as bench:
            served = bench.engine.address.served_name
            ids = (task_set.task_set_id, index_id, bench.engine.engine_id, bench.model_id, served)
            roles = roles_of(suite, bench.served)
            plan = make_plan(suite, task_set.problems, *ids, model=bench.model, roles=roles)
            return outlook_of(plan, catalog)
