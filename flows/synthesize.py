"""The flow `synthesize-tasks`: a gated task set and its counts.

Run: ``tutti synth``, or from the Prefect UI. A repeated request returns the same set.
"""

import asyncio
from pathlib import Path
from typing import Any

from prefect import flow

from tutti.flows.sources import open_source
from tutti.tasks.platform import MODELS
from tutti.tasks.platform.progress import leave_table, open_run
from tutti.tasks.reporting import publish_task_set
from tutti.tasks.sweeps.plan import make_tasks
from tutti.tasks.synthesis import (
    SetRequest,
    TaskRequest,
    count_gates,
    count_reasons,
    count_tasks,
)

DEFAULT_REQUEST = TaskRequest()


@flow(name="synthesize-tasks")
async def synthesize_tasks(
    request: SetRequest = DEFAULT_REQUEST, models: Path = MODELS
) -> dict[str, Any]:
    """Make a task set: propose candidates and show each to gates, which drop it with a reason.

    Args:
        request: What to make; its `source` says of what: the standard library's documentation
            (stdlib), a domain by a program (domain) or by a model (teacher), an index's documents
            (documents); of a stored set its tasks with preferences or labels, or those that a
            further gate keeps (pass_rate, agreement, judged).
        models: The model registry file, for the models that the request names.

    Returns the task set's id, and its tasks counted by family, split and status.
    """
    with open_run("synthesize-tasks", request.model_dump(mode="json")) as run:
        async with open_source(request, models, run) as source:
            task_set = await make_tasks(run.log, source, run.catalog)
        home = run.catalog.home
        counts = await asyncio.to_thread(count_tasks, home, task_set)
        reasons = await asyncio.to_thread(count_reasons, home, task_set)
        gates = await asyncio.to_thread(count_gates, home, task_set)
        description = f"{task_set}: tasks by family, split, status and reason"
        await leave_table(reasons, "task-set", description)
        if gates:
            await leave_table(gates, "gates", f"{task_set}: what each gate was shown and dropped")
        await publish_task_set(task_set, run.catalog, run.log)
    return {"task_set_id": task_set, "counts": counts, "gates": gates}
