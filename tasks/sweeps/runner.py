"""Run cells: closed-loop sessions over a cell's samples, every attempt committed exactly once.

An attempt is entered in the catalog before its first call. When it ends, the gateway's calls are
committed first, then the attempt's rows and its state in one transaction. So a crash loses at most
attempts in flight; the next run finds those, records them as `infra_error` (worker lost) and makes
a new attempt.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import sqlalchemy as sa

from storage import Catalog, StoreBusy, artifact_id, commit
from storage import catalog as cat
from tasks.agents.loop import Limits, Trajectory, run_attempt
from tasks.agents.model import GatewayModel, ModelCallFailed, Sampling
from tasks.agents.sandbox import Sandbox, strongest_level
from tasks.agents.toolbox import Toolbox
from tasks.scoring import score_exact
from tasks.serving.engine import Engine
from tasks.serving.services import GatewayClient
from tasks.sweeps.plan import Cell, Plan, Sample, finished_samples
from tasks.sweeps.records import Finished, attempt_rows, lost_attempt_row

COMMIT_S = 1.0
RETRY_WAIT_S = 2.0
SEED_STEP = 1_000_003  # between trials: no repeat of one trial shares a seed with another
COUNTED = ("ok", "limit", "model_error")


@dataclass(frozen=True)
class Services:
    """What a sweep needs running."""

    engine: Engine
    gateway: GatewayClient
    search_url: str


@dataclass
class Progress:
    """How far a cell is; handed to `on_progress` after every attempt."""

    cell: Cell
    total: int
    done: int = 0
    counted: int = 0
    correct: int = 0
    infra: int = 0


@contextlib.contextmanager
def sweep_lock(catalog: Catalog, sweep_id: str) -> Iterator[None]:
    """Hold the sweep for this process. Raises StoreBusy when another process holds it.

    The lock is the kernel's: it ends with the process, however that ends.
    """
    locks = catalog.home.root / "locks"
    with cat.store_boundary(catalog.home):
        locks.mkdir(exist_ok=True)
        handle = open(locks / f"{sweep_id.replace(':', '-')}.lock", "a+")  # noqa: SIM115
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            owner = handle.read().strip() or "unknown"
            raise StoreBusy(f"{sweep_id} is being run by process {owner}; wait for it") from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


async def run_cell(
    plan: Plan,
    cell: Cell,
    services: Services,
    catalog: Catalog,
    run_id: str,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Run what is missing of `cell`. Raises EngineFailed, GatewayFailed or StoreError.

    On any error what is finished is committed; the same call again does the rest.
    """
    finished = finished_samples(catalog, cell)
    progress = Progress(cell, len(cell.samples), done=len(finished))
    on_progress(progress)
    _record_lost(plan, cell, catalog)
    missing = [sample for sample in cell.samples if sample.sample_id not in finished]
    if not missing:
        return progress
    session = _CellRun(plan, cell, services, catalog, run_id, progress, on_progress)
    try:
        await session.run(missing)
    finally:
        complete = len(finished_samples(catalog, cell)) == progress.total
        _set_status(catalog, cell, "finished" if complete else "incomplete")
    return progress


class _CellRun:
    """One pass over the missing samples of one cell."""

    def __init__(
        self,
        plan: Plan,
        cell: Cell,
        services: Services,
        catalog: Catalog,
        run_id: str,
        progress: Progress,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.plan, self.cell, self.services = plan, cell, services
        self.catalog, self.run_id = catalog, run_id
        self.progress, self.on_progress = progress, on_progress
        self.finished: list[Finished] = []
        self.over = asyncio.Event()
        self.limits = Limits(turns=plan.suite.max_turns)

    async def run(self, missing: list[Sample]) -> None:
        """Sessions take samples in order until none is left."""
        _set_status(self.catalog, self.cell, "running")
        limit = self.plan.suite.cap
        await asyncio.to_thread(
            self.services.gateway.begin_cell, self.cell.cell_id, self.cell.policy, limit
        )
        queue = iter(missing)
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
            self.http = http
            self.toolbox = Toolbox(http, self.services.search_url, Sandbox(strongest_level()))
            sessions = [
                asyncio.create_task(self._session(queue)) for _ in range(self.cell.concurrency)
            ]
            watch = asyncio.create_task(self.services.engine.watch())
            committer = asyncio.create_task(self._commit_until_over())
            try:
                await _all_or_first_failure(sessions, [watch, committer])
            finally:
                for task in [*sessions, watch]:
                    task.cancel()
                await asyncio.gather(*sessions, watch, return_exceptions=True)
                # Never cancelled: a commit under way in its thread would be taken for undone.
                self.over.set()
                await committer
        await asyncio.to_thread(self.services.gateway.end_cell)

    async def _session(self, queue: Iterator[Sample]) -> None:
        for sample in queue:
            for nth in range(self.plan.suite.max_attempts):
                # Longer than the guards need to notice a dead engine, so that its death costs
                # each session one attempt and not all of them.
                await asyncio.sleep(nth * RETRY_WAIT_S)
                if (await self._attempt(sample)).status != "infra_error":
                    break

    async def _attempt(self, sample: Sample) -> Trajectory:
        attempt, attempt_id = await asyncio.to_thread(self._enter_attempt, sample)
        suite = self.plan.suite
        model = GatewayModel(
            self.http,
            self.services.gateway.url,
            self.plan.served_name,
            attempt_id,
            self.cell.cell_id,
            Sampling(
                suite.temperature, suite.max_tokens, self.cell.seed + SEED_STEP * sample.trial
            ),
        )
        trajectory = await run_attempt(sample.task.question, model, self.toolbox, self.limits)
        self.finished.append(Finished(sample, attempt_id, attempt, trajectory))
        self._count(sample, trajectory)
        with contextlib.suppress(ModelCallFailed):  # the gateway's idle lease frees the place too
            await model.release()
        return trajectory

    def _count(self, sample: Sample, trajectory: Trajectory) -> None:
        progress = self.progress
        if trajectory.status == "infra_error":
            progress.infra += 1
        else:
            progress.done += 1
            progress.counted += trajectory.status in COUNTED
            progress.correct += score_exact(trajectory.answer, sample.task.answer).correct
        self.on_progress(progress)

    def _enter_attempt(self, sample: Sample) -> tuple[int, str]:
        states = cat.attempt_states
        with self.catalog.transaction() as connection:
            latest = connection.execute(
                sa.select(sa.func.max(states.c.attempt)).where(
                    states.c.sample_id == sample.sample_id
                )
            ).scalar()
            attempt = (latest or 0) + 1
            attempt_id = artifact_id("attempt", [sample.sample_id, attempt])
            row = {"attempt_id": attempt_id, "cell_id": self.cell.cell_id, "attempt": attempt}
            row |= {"sample_id": sample.sample_id, "task_id": sample.task.task_id}
            row |= {"trial": sample.trial, "run_id": self.run_id, "state": "running"}
            connection.execute(sa.insert(states).values(row | {"started_at": cat.now()}))
        return attempt, attempt_id

    async def _commit_until_over(self) -> None:
        while not self.over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), COMMIT_S)
            await self._commit()
        await self._commit()  # what ended while the last commit was under way

    async def _commit(self) -> None:
        taken, self.finished = self.finished, []
        if taken:
            await asyncio.to_thread(self._commit_now, taken)

    def _commit_now(self, taken: list[Finished]) -> None:
        self.services.gateway.flush()  # an attempt is never there without its calls
        rows: dict[str, list[dict[str, Any]]] = {}
        for done in taken:
            for table, more in attempt_rows(self.plan, self.cell, done, self.run_id).items():
                rows.setdefault(table, []).extend(more)

        def complete(connection: sa.Connection) -> None:
            for done in taken:
                _end_attempt(connection, done.attempt_id, done.trajectory.status)

        commit(self.catalog, rows, complete)


def _end_attempt(connection: sa.Connection, attempt_id: str, status: str) -> None:
    states = cat.attempt_states
    ended = connection.execute(
        sa.update(states)
        .where(states.c.attempt_id == attempt_id, states.c.state == "running")
        .values(state="done", status=status)
    )
    assert ended.rowcount == 1, f"{attempt_id} was committed before"


def _record_lost(plan: Plan, cell: Cell, catalog: Catalog) -> None:
    """Record attempts that an earlier process left running; the sweep's lock says it is gone."""
    states = cat.attempt_states
    lost = catalog.rows(
        sa.select(states).where(states.c.cell_id == cell.cell_id, states.c.state == "running")
    )
    if not lost:
        return

    def complete(connection: sa.Connection) -> None:
        for row in lost:
            _end_attempt(connection, row["attempt_id"], "infra_error")

    commit(catalog, {"attempts": [lost_attempt_row(plan, cell, row) for row in lost]}, complete)


def _set_status(catalog: Catalog, cell: Cell, status: str) -> None:
    values: dict[str, Any] = {"status": status}
    values["started_at" if status == "running" else "ended_at"] = cat.now()
    with catalog.transaction() as connection:
        connection.execute(
            sa.update(cat.cells).where(cat.cells.c.cell_id == cell.cell_id).values(values)
        )


async def _all_or_first_failure(
    sessions: list["asyncio.Task[None]"], guards: list["asyncio.Task[None]"]
) -> None:
    """Return when all sessions are done; raise the first error of a session or a guard."""
    pending: set[asyncio.Task[None]] = {*sessions, *guards}
    while not all(session.done() for session in sessions):
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    for session in sessions:
        session.result()
