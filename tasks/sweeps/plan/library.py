"""An index over the standard library with its service, and task sets made with it.

What every measuring flow begins with; `Deployment` adds the models.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import Catalog
from tutti.tasks.progress import StageLog, StageProgress, stage
from tutti.tasks.retrieval import (
    MANIFEST,
    build_index,
    load_stdlib_corpus,
    read_manifest,
)
from tutti.tasks.sandbox import unsafe_sandbox
from tutti.tasks.serving.processes import reap_stale
from tutti.tasks.serving.served import retrieval_service
from tutti.tasks.sweeps.plan.task_set import TaskSet, enter_task_set, made_tasks
from tutti.tasks.sweeps.spec import STDLIB, Suite, SuiteError, index_of
from tutti.tasks.synthesis import StdlibSource, TaskRequest
from tutti.tasks.task_sets import make_set


@dataclass(frozen=True)
class SearchService:
    """An index and the service that searches it."""

    index_id: str
    search_url: str


@stage(name="index", tags=("embedder",))
async def index_stdlib(_: StageProgress, catalog: Catalog) -> Path:
    """Build, or reuse, the index over the standard library; returns its folder."""
    return await asyncio.to_thread(lambda: build_index(load_stdlib_corpus(), catalog))


@contextlib.asynccontextmanager
async def open_library(catalog: Catalog, log: StageLog) -> AsyncIterator[SearchService]:
    """Build (or reuse) the index over the standard library and serve it for the block."""
    _reap(catalog, log)
    async with _serve(await index_stdlib(log, catalog), catalog) as library:
        yield library


def _reap(catalog: Catalog, log: StageLog) -> None:
    for role in reap_stale(catalog):
        log.console.print(f"[yellow]ended a {role} process that an earlier run left behind[/]")


@contextlib.asynccontextmanager
async def _serve(folder: Path, catalog: Catalog) -> AsyncIterator[SearchService]:
    with contextlib.ExitStack() as stack:
        service = retrieval_service(folder, catalog)
        url = await asyncio.to_thread(stack.enter_context, service)
        yield SearchService(read_manifest(folder)["index_id"], url)


async def make_tasks(
    request: TaskRequest,
    library: SearchService,
    catalog: Catalog,
    log: StageLog,
    name: str = "tasks",
) -> str:
    """Make (or reuse) the task set for `request`; returns its id."""
    return await synthesize_tasks.titled(log, name, request, library, catalog)


@stage(name="tasks")
async def synthesize_tasks(
    progress: StageProgress, request: TaskRequest, library: SearchService, catalog: Catalog
) -> str:
    """Make, or reuse, the task set for `request`; returns its id."""
    documents, index_id, url = load_stdlib_corpus(), library.index_id, library.search_url
    source = StdlibSource(documents, request, index_id, url, progress.show)
    return await make_set(source, catalog)


def find_index(named: str, catalog: Catalog) -> Path:
    """The folder of an index that a suite names by its id or folder. Raises SuiteError."""
    entry = catalog.artifact(named) if named.startswith("index:") else {"path": Path(named)}
    folder = None if entry is None else entry["path"]
    if folder is not None and (folder / MANIFEST).is_file():
        return Path(folder)
    raise SuiteError(
        f"harness.search_index: there is no index {named!r}; `tutti index FOLDER` builds one and "
        "prints its id and folder"
    )


def named_index(suite: Suite) -> str | None:
    """The index that a suite names for its agent, or else that its set of questions is about."""
    return suite.harness.search_index or index_of(suite.benchmark)


@contextlib.asynccontextmanager
async def library_of(
    suites: Sequence[Suite], catalog: Catalog, log: StageLog
) -> AsyncIterator[SearchService | None]:
    """What the tasks of one of the suites search; None where all search nothing.

    Raises SuiteError where there is no such index, or suites search different ones.
    """
    indexes = {named_index(suite): suite.benchmark for suite in suites}
    found = {named: benchmark for named, benchmark in indexes.items() if named is not None}
    if len(found) > 1 or (found and any(suite.benchmark == STDLIB for suite in suites)):
        names = ", ".join(suite.benchmark for suite in suites)
        raise SuiteError(f"benchmarks: {names} search different indexes; give each a suite")
    if found:
        folder = find_index(next(iter(found)), catalog)
        _reap(catalog, log)
        async with _serve(folder, catalog) as library:
            yield library
        return
    if all(suite.benchmark != STDLIB for suite in suites):
        yield None
        return
    async with open_library(catalog, log) as library:
        yield library


async def task_set_of(
    suite: Suite, library: SearchService | None, catalog: Catalog, log: StageLog
) -> TaskSet:
    """Make, or read, what a suite measures."""
    if suite.benchmark == STDLIB:
        assert library is not None, "`library_of` opened it"
        with unsafe_sandbox(suite.harness.unsafe_sandbox):
            made = await make_tasks(suite.tasks, library, catalog, log)
        return made_tasks(made, catalog, suite.data.split)
    return await enter_benchmark(log, suite, catalog)


@stage(name="tasks")
async def enter_benchmark(_: StageProgress, suite: Suite, catalog: Catalog) -> TaskSet:
    """Read a benchmark's tasks and enter them as a task set."""
    return await asyncio.to_thread(enter_task_set, suite, catalog)
