"""The flow `synthesize-tasks`: a task set over the standard library, gated, with its counts.

Run: ``tutti synth``, or from the Prefect UI. A request that was made before returns the same set.
"""

import asyncio
from typing import Any

from prefect import flow

from tutti.tasks.progress import leave_table
from tutti.tasks.runs import open_run
from tutti.tasks.sweeps.plan import make_tasks, open_library
from tutti.tasks.synthesis import TaskRequest, count_reasons, count_tasks

DEFAULT_REQUEST = TaskRequest()


@flow(name="synthesize-tasks")
async def synthesize_tasks(parameters: TaskRequest = DEFAULT_REQUEST) -> dict[str, Any]:
    """Make a task set: propose candidates, remove duplicates, gate by an oracle and a no-op agent.

    Args:
        parameters: Which tasks to make, and how many.

    Returns the task set's id, and its tasks counted by family, split and status.
    """
    with open_run("synthesize-tasks", parameters.model_dump(mode="json")) as run:
        async with open_library(run.catalog, run.log) as library:
            task_set = await make_tasks(parameters, library, run.catalog, run.log)
        counts = await asyncio.to_thread(count_tasks, run.catalog.home, task_set)
        reasons = await asyncio.to_thread(count_reasons, run.catalog.home, task_set)
        description = f"{task_set}: tasks by family, split, status and reason"
        await leave_table(reasons, "task-set", description)
    return {"task_set_id": task_set, "counts": counts}
