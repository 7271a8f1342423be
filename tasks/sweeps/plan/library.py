"""An index over the standard library with its service, and task sets that use it.

Every measuring flow begins with it; `Deployment` adds the models.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.storage import Catalog
from tutti.tasks.platform.progress import StageLog, StageProgress, stage
from tutti.tasks.retrieval import MANIFEST, build_index, load_stdlib_corpus, read_manifest
from tutti.tasks.sandbox import unsafe_sandbox
from tutti.tasks.serving.processes import reap_stale
from tutti.tasks.serving.served import retrieval_service
from tutti.tasks.sweeps.plan.task_set import TaskSet, enter_task_set
from tutti.tasks.sweeps.spec import Suite, SuiteError, index_of
from tutti.tasks.synthesis import StdlibSource, TaskRequest
from tutti.tasks.task_sets import Source, make_set


@dataclass(frozen=True)
class SearchService:
    """An index and its search service."""

    index_id: str
    search_url: str

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, catalog: Catalog, log: StageLog, folder: Path | None = None
    ) -> AsyncIterator["SearchService"]:
        """Serve the index in `folder` for the block; by default that over the standard library,
        which is built or reused."""
        for role in reap_stale(catalog):
            log.console.print(f"[yellow]ended a {role} process that an earlier run left behind[/]")
        folder = folder or await index_stdlib(log, catalog)
        with contextlib.ExitStack() as stack:
            service = retrieval_service(folder, catalog)
            url = await asyncio.to_thread(stack.enter_context, service)
            yield cls(read_manifest(folder)["index_id"], url)

    @classmethod
    @contextlib.asynccontextmanager
    async def of_suites(
        cls, suites: Sequence[Suite], catalog: Catalog, log: StageLog
    ) -> AsyncIterator["SearchService | None"]:
        """Serve the index that the suites' tasks search; yield None if they search nothing.

        Raises SuiteError if there is no such index, or suites search different ones.
        """
        indexes = dict.fromkeys(filter(None, map(named_index, suites)))
        of_made = any(suite.request is not None for suite in suites)
        if len(indexes) + of_made > 1:
            names = ", ".join(suite.benchmark for suite in suites)
            raise SuiteError(f"benchmarks: {names} search different indexes; give each a suite")
        if not indexes and not of_made:
            yield None
            return
        folder = find_index(next(iter(indexes)), catalog) if indexes else None
        async with cls.open(catalog, log, folder) as search:
            yield search

    def source(self, request: TaskRequest) -> Source:
        """The source of questions over the standard library, which are solved with this search."""
        return StdlibSource(load_stdlib_corpus(), request, self.index_id, self.search_url)


@stage(name="index", tags=("embedder",))
async def index_stdlib(_: StageProgress, catalog: Catalog) -> Path:
    """Build or reuse the index over the standard library; return its folder."""
    return await asyncio.to_thread(lambda: build_index(load_stdlib_corpus(), catalog))


@stage(name="tasks")
async def make_tasks(progress: StageProgress, source: Source, catalog: Catalog) -> str:
    """Make or reuse the set of a source; return its id."""
    return await make_set(source, catalog, progress.show)


def find_index(named: str, catalog: Catalog) -> Path:
    """Return the folder of an index that a suite names by its id or folder. Raises SuiteError."""
    entry = catalog.artifact(named) if named.startswith("index:") else {"path": Path(named)}
    folder = None if entry is None else entry["path"]
    if folder is not None and (folder / MANIFEST).is_file():
        return Path(folder)
    raise SuiteError(
        f"harness.search_index: there is no index {named!r}; `tutti index FOLDER` builds one and "
        "prints its id and folder"
    )


def named_index(suite: Suite) -> str | None:
    """The index that a suite names for its agent, or else the index of its set of questions."""
    return suite.harness.search_index or index_of(suite.benchmark)


async def task_set_of(
    suite: Suite, library: SearchService | None, catalog: Catalog, log: StageLog
) -> TaskSet:
    """Make or read the task set of a suite."""
    if suite.request is None:
        return await enter_benchmark(log, suite, catalog)
    assert library is not None, "`SearchService.of_suites` opened it"
    with unsafe_sandbox(suite.harness.unsafe_sandbox):
        made = await make_tasks(log, library.source(suite.request), catalog)
    return TaskSet.made(made, catalog, suite)


@stage(name="tasks")
async def enter_benchmark(_: StageProgress, suite: Suite, catalog: Catalog) -> TaskSet:
    """Read a benchmark's tasks and enter them as a task set."""
    return await asyncio.to_thread(enter_task_set, suite, catalog)
