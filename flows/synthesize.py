"""The flow `synthesize-tasks`: a task set, gated, with its counts.

Run: ``tutti synth``, or from the Prefect UI. A request that was made before returns the same set.
"""

import asyncio
from pathlib import Path
from typing import Any

from prefect import flow

from tutti.flows.derive import DeriveRequest, derive_set
from tutti.flows.teaching import teach_documents, teach_domain
from tutti.tasks.progress import StageProgress, leave_table, stage
from tutti.tasks.project import MODELS
from tutti.tasks.reporting import publish_task_set
from tutti.tasks.runs import Run, open_run
from tutti.tasks.sweeps.plan import SearchService, make_tasks
from tutti.tasks.synthesis import (
    DocumentsRequest,
    DomainRequest,
    DomainSource,
    TaskRequest,
    TeacherSetRequest,
    benchmark_questions,
    count_gates,
    count_reasons,
    count_tasks,
)
from tutti.tasks.task_sets import make_set

DEFAULT_REQUEST = TaskRequest()


@flow(name="synthesize-tasks")
async def synthesize_tasks(
    parameters: TaskRequest = DEFAULT_REQUEST,
    domain: DomainRequest | None = None,
    teacher: TeacherSetRequest | None = None,
    models: Path = MODELS,
    documents: DocumentsRequest | None = None,
    derived: DeriveRequest | None = None,
) -> dict[str, Any]:
    """Make a task set: propose candidates and show each to gates, which drop it with a reason.

    Args:
        parameters: Which tasks over the standard library to make, and how many.
        domain: Tasks of a domain with a database and tools instead, by a program.
        teacher: Tasks of a domain instead, by a model of the registry.
        models: The model registry file, for the teacher.
        documents: Questions about the documents of an index instead, by a program or a teacher.
        derived: Preferences, or skills and levels, for the tasks of a set instead.

    Returns the task set's id, and its tasks counted by family, split and status.
    """
    asked = documents or derived or teacher or domain or parameters
    with open_run("synthesize-tasks", asked.model_dump(mode="json")) as run:
        if documents is not None:
            task_set = await teach_documents(documents, models, run)
        elif derived is not None:
            task_set = await derive_set(derived, models, run)
        elif teacher is not None:
            task_set = await teach_domain(teacher, models, run)
        elif domain is not None:
            task_set = await synthesize_domain(run.log, domain, run)
        else:
            task_set = await _over_library(parameters, run)
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


async def _over_library(parameters: TaskRequest, run: Run) -> str:
    async with SearchService.open(run.catalog, run.log) as library:
        return await make_tasks(parameters, library, run.catalog, run.log)


@stage(name="tasks")
async def synthesize_domain(progress: StageProgress, request: DomainRequest, run: Run) -> str:
    """Make, or reuse, a set of domain tasks; returns its id."""
    home = run.catalog.home
    questions = await asyncio.to_thread(benchmark_questions, home) if request.contamination else ()
    return await make_set(DomainSource(request, questions), run.catalog, progress.show)
