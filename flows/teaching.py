"""Teachers and judges behind a gateway, and what they make for the flow `synthesize-tasks`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tutti.storage import Catalog, content_hash
from tutti.tasks.progress import StageLog, StageProgress, stage
from tutti.tasks.runs import Run
from tutti.tasks.serving import pick_models
from tutti.tasks.sweeps.plan import Deployment
from tutti.tasks.synthesis import (
    DocumentsRequest,
    TeacherDomainSource,
    TeacherPool,
    TeacherSetRequest,
    ask_documents,
    benchmark_questions,
)
from tutti.tasks.synthesis.teacher import (
    TeacherBudget,
    TeacherEndpoint,
    TeacherSampling,
    prices_of,
    provider_address,
)
from tutti.tasks.task_sets import make_set

NOT_ASKED = "nothing asked: the set was there"


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
) -> AsyncIterator[TeacherPool]:
    """Serve entries of the registry for the block, in their order, behind one gateway that records
    and prices their calls.

    Raises RegistryError for an unknown name, and what starting engines and the gateway raises.
    """
    entries = pick_models(models, names)
    reached = [entries[name].served_name or name for name in names]
    async with Deployment(entries, catalog, log) as deployment:
        gateway = await deployment.start()
        endpoints = [
            TeacherEndpoint(
                base_url=f"{gateway.url}/v1",
                # two that others serve by one name are told apart by their entries
                model=at if reached.count(at) == 1 else name,
                program=f"{calls.role}-{calls.program}",
                role=calls.role,
                batch=provider_address(entries[name]) if calls.batch else None,
            )
            for name, at in zip(names, reached, strict=True)
        ]
        yield TeacherPool(endpoints, [prices_of(entries[name]) for name in names])


async def teach_domain(request: TeacherSetRequest, models: Path, run: Run) -> str:
    """Make a teacher's domain; returns its set's id."""
    calls = TeacherCalls(request.request_hash, batch=request.batch)
    async with serve_teachers([request.teacher], models, run.catalog, run.log, calls) as served:
        made, spent = await ask_teacher(run.log, request, _within(served, request), run)
    run.log.console.print(f"teacher: {spent or NOT_ASKED}")
    return made


async def teach_documents(request: DocumentsRequest, models: Path, run: Run) -> str:
    """Make questions about documents, by the program where no teacher is named; the set's id."""
    if not request.teacher:
        made, _ = await ask_documents(run.log, request, run.catalog)
        return made
    calls = TeacherCalls(content_hash(request.as_asked(request.index)))
    async with serve_teachers([request.teacher], models, run.catalog, run.log, calls) as served:
        pool = replace(_within(served, request), sampling=TeacherSampling(seed=request.seed))
        made, spent = await ask_documents(run.log, request, run.catalog, pool)
    run.log.console.print(f"teacher: {spent or NOT_ASKED}")
    return made


def _within(pool: TeacherPool, request: TeacherSetRequest | DocumentsRequest) -> TeacherPool:
    budget = TeacherBudget(request.usd, request.calls)
    return replace(pool, budget=budget, concurrency=request.concurrency)


@stage(name="teacher")
async def ask_teacher(
    progress: StageProgress, request: TeacherSetRequest, teachers: TeacherPool, run: Run
) -> tuple[str, str]:
    """Ask for the domain and its tasks, and show them to the gates; the set's id and what was
    spent."""
    questions = await asyncio.to_thread(benchmark_questions, run.catalog.home)
    source = TeacherDomainSource(request, teachers, run.catalog, questions)
    return await make_set(source, run.catalog, progress.show), source.spent
