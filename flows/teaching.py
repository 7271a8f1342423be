"""Teachers and judges behind a gateway, and what they make for the flow `synthesize-tasks`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import Catalog, content_hash
from tutti.tasks.progress import StageLog, StageProgress, stage
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


@dataclass(frozen=True)
class TeacherCalls:
    """How the calls of served teachers and judges are recorded and made."""

    program: str
    """What they belong to: a request's hash."""
    role: str = "teacher"
    batch: bool = False
    """Whether they may be asked in their providers' batches."""


@asynccontextmanager
async def serve_teachers(
    names: Sequence[str], models: Path, catalog: Catalog, log: StageLog, calls: TeacherCalls
) -> AsyncIterator[list[ServedTeacher]]:
    """Serve entries of the registry for the block, in their order, behind one gateway that records
    and prices their calls.

    Raises RegistryError for an unknown name, and what starting engines and the gateway raises.
    """
    entries = pick_models(models, names)
    reached = [entries[name].served_name or name for name in names]
    async with open_bench(entries, None, catalog, log) as bench:
        services = await bench.services()
        served = []
        for name, at in zip(names, reached, strict=True):
            endpoint = TeacherEndpoint(
                base_url=f"{services.gateway.url}/v1",
                # two that others serve by one name are told apart by their entries
                model=at if reached.count(at) == 1 else name,
                program=f"{calls.role}-{calls.program}",
                role=calls.role,
                batch=provider_address(entries[name]) if calls.batch else None,
            )
            served.append((endpoint, prices_of(entries[name])))
        yield served


async def teach_domain(request: TeacherSetRequest, models: Path, run: Run) -> str:
    """Make a teacher's domain; returns its set's id."""
    calls = TeacherCalls(request.request_hash, batch=request.batch)
    async with serve_teachers([request.teacher], models, run.catalog, run.log, calls) as (served,):
        return _told(await ask_teacher(run.log, request, *served, run), run)


async def teach_documents(request: DocumentsRequest, models: Path, run: Run) -> str:
    """Make questions about documents, by the program where no teacher is named; the set's id."""
    if not request.teacher:
        return await ask_documents(run.log, request, run.catalog)
    calls = TeacherCalls(content_hash(request.as_asked(request.index)))
    async with serve_teachers([request.teacher], models, run.catalog, run.log, calls) as (served,):
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
