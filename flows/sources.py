"""The source of a task set with the services it needs: the models it calls, the index it searches.

For the flow `synthesize-tasks` and the verb `tutti derive`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tutti.storage import Catalog, content_hash
from tutti.tasks.platform.progress import Run, StageLog
from tutti.tasks.serving.registry import pick_models
from tutti.tasks.sweeps.plan import Deployment, SearchService
from tutti.tasks.synthesis import (
    SetRequest,
    TaskRequest,
    TeacherPool,
    source_of,
)
from tutti.tasks.synthesis.teacher import (
    BudgetedRequest,
    TeacherBudget,
    TeacherEndpoint,
    TeacherRequest,
    TeacherSampling,
    prices_of,
    provider_address,
)
from tutti.tasks.task_sets import Source

NOT_ASKED = "nothing asked: the set was there"


@asynccontextmanager
async def open_source(request: SetRequest, models: Path, run: Run) -> AsyncIterator[Source]:
    """Open the source of a request for the block, then print the usage of its models. Raises the
    errors of `serve_teachers` and `source_of`."""
    if isinstance(request, TaskRequest):
        async with SearchService.open(run.catalog, run.log) as search:
            yield search.source(request)
        return
    if not isinstance(request, BudgetedRequest):
        yield await asyncio.to_thread(source_of, request, run.catalog, None)
        return
    async with serve_teachers(request, models, run.catalog, run.log) as teachers:
        source = await asyncio.to_thread(source_of, request, run.catalog, teachers)
        yield source
    if request.models_asked:
        run.log.console.print(f"{request.role}: {source.spent or NOT_ASKED}")


@asynccontextmanager
async def serve_teachers(
    request: BudgetedRequest, models: Path, catalog: Catalog, log: StageLog
) -> AsyncIterator[TeacherPool | None]:
    """Serve a request's models for the block, in their order, behind one gateway that records and
    prices their calls; yield None if it needs none.

    Raises RegistryError for an unknown name, and the errors of starting engines and the gateway.
    """
    names = request.models_asked
    if not names:
        yield None
        return
    program = f"{request.role}-{content_hash(request.as_asked)}"
    entries = pick_models(models, names)
    is_batch = isinstance(request, TeacherRequest) and request.batch
    reached = [entries[name].served_name or name for name in names]
    async with Deployment(entries, catalog, log) as deployment:
        gateway = await deployment.start()
        endpoints = [
            TeacherEndpoint(
                base_url=f"{gateway.url}/v1",
                # two that others serve by one name are told apart by their entries
                model=at if reached.count(at) == 1 else name,
                program=program,
                role=request.role,
                batch=provider_address(entries[name]) if is_batch else None,
            )
            for name, at in zip(names, reached, strict=True)
        ]
        yield TeacherPool(
            endpoints,
            [prices_of(entries[name]) for name in names],
            TeacherBudget(request.usd, request.calls),
            request.concurrency,
            TeacherSampling(seed=request.seed),
        )
