"""The flow `synthesize-tasks`: a task set, gated, with its counts.

Run: ``tutti synth``, or from the Prefect UI. A request that was made before returns the same set.
"""

import asyncio
from pathlib import Path
from typing import Any

from prefect import flow

from tutti.tasks.progress import StageProgress, leave_table, stage
from tutti.tasks.project import MODELS
from tutti.tasks.reporting import publish_task_set
from tutti.tasks.runs import Run, open_run
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.plan import make_tasks, open_library
from tutti.tasks.sweeps.run import open_bench
from tutti.tasks.synthesis import (
    DomainRequest,
    TaskRequest,
    TeacherSet,
    TeacherSetRequest,
    benchmark_questions,
    count_gates,
    count_reasons,
    count_tasks,
    make_domain_set,
    make_teacher_set,
)
from tutti.tasks.synthesis.teacher import (
    TeacherEndpoint,
    TeacherPrices,
    prices_of,
    provider_address,
)

DEFAULT_REQUEST = TaskRequest()


@flow(name="synthesize-tasks")
async def synthesize_tasks(
    parameters: TaskRequest = DEFAULT_REQUEST,
    domain: DomainRequest | None = None,
    teacher: TeacherSetRequest | None = None,
    models: Path = MODELS,
) -> dict[str, Any]:
    """Make a task set: propose candidates and show each to gates, which drop it with a reason.

    Args:
        parameters: Which tasks over the standard library to make, and how many.
        domain: Tasks of a domain with a database and tools instead, by a program.
        teacher: Tasks of a domain instead, by a model of the registry.
        models: The model registry file, for the teacher.

    Returns the task set's id, and its tasks counted by family, split and status.
    """
    asked = teacher or domain or parameters
    with open_run("synthesize-tasks", asked.model_dump(mode="json")) as run:
        if teacher is not None:
            task_set = await _by_teacher(teacher, models, run)
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
    async with open_library(run.catalog, run.log) as library:
        return await make_tasks(parameters, library, run.catalog, run.log)


async def _by_teacher(request: TeacherSetRequest, models: Path, run: Run) -> str:
    """Serve the teacher behind a gateway, which records its calls, and ask it."""
    entries = pick_models(models, [request.teacher])
    async with open_bench(entries, None, run.catalog, run.log) as bench:
        services = await bench.services()
        endpoint = TeacherEndpoint(
            base_url=f"{services.gateway.url}/v1",
            model=services.engine.address.served_name,
            program=f"teacher-{request.request_hash}",
            batch=provider_address(entries[request.teacher]) if request.batch else None,
        )
        prices = prices_of(entries[request.teacher])
        made = await ask_teacher(run.log, request, endpoint, prices, run)
    run.log.console.print(f"teacher: {made.spent or 'nothing asked: the set was there'}")
    return made.task_set_id


@stage(name="teacher")
async def ask_teacher(
    _: StageProgress,
    request: TeacherSetRequest,
    endpoint: TeacherEndpoint,
    prices: TeacherPrices | None,
    run: Run,
) -> TeacherSet:
    """Ask for the domain and its tasks, and show them to the gates."""
    questions = await asyncio.to_thread(benchmark_questions, run.catalog.home)
    return await make_teacher_set(request, endpoint, prices, run.catalog, questions)


@stage(name="tasks")
async def synthesize_domain(progress: StageProgress, request: DomainRequest, run: Run) -> str:
    """Make, or reuse, a set of domain tasks; returns its id."""

    def make() -> str:
        questions = benchmark_questions(run.catalog.home) if request.contamination else ()
        return make_domain_set(request, run.catalog, questions, progress.show)

    return await asyncio.to_thread(make)
