"""What a teacher model makes for the flow `synthesize-tasks`.

It is served behind a gateway, which records and prices its calls.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tutti.storage import content_hash
from tutti.tasks.progress import StageProgress, stage
from tutti.tasks.runs import Run
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.run import open_bench
from tutti.tasks.synthesis import (
    DocumentsRequest,
    ServedTeacher,
    TeacherSet,
    TeacherSetRequest,
    ask_documents,
    ask_teacher_about_documents,
    benchmark_questions,
    make_teacher_set,
)
from tutti.tasks.synthesis.teacher import (
    TeacherEndpoint,
    TeacherPrices,
    prices_of,
    provider_address,
)


@asynccontextmanager
async def serve_teacher(
    teacher: str, program: str, models: Path, run: Run, batch: bool = False
) -> AsyncIterator[ServedTeacher]:
    """Serve an entry of the registry for the block; `program` is what its calls belong to, `batch`
    whether it may be asked in the provider's batches."""
    entries = pick_models(models, [teacher])
    async with open_bench(entries, None, run.catalog, run.log) as bench:
        services = await bench.services()
        endpoint = TeacherEndpoint(
            base_url=f"{services.gateway.url}/v1",
            model=services.engine.address.served_name,
            program=f"teacher-{program}",
            batch=provider_address(entries[teacher]) if batch else None,
        )
        yield endpoint, prices_of(entries[teacher])


async def teach_domain(request: TeacherSetRequest, models: Path, run: Run) -> str:
    """Make a teacher's domain; returns its set's id."""
    async with serve_teacher(
        request.teacher, request.request_hash, models, run, request.batch
    ) as served:
        return _told(await ask_teacher(run.log, request, *served, run), run)


async def teach_documents(request: DocumentsRequest, models: Path, run: Run) -> str:
    """Make questions about documents, by the program where no teacher is named; the set's id."""
    if not request.teacher:
        return await ask_documents(run.log, request, run.catalog)
    program = content_hash(request.as_asked(request.index))
    async with serve_teacher(request.teacher, program, models, run) as served:
        made = await ask_teacher_about_documents(run.log, request, served, run.catalog)
    return _told(made, run)


def _told(made: TeacherSet, run: Run) -> str:
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
