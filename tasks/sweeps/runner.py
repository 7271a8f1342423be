"""Run cells: closed-loop sessions over a cell's samples, every attempt committed exactly once.

An attempt is entered in the catalog before its first call. When it ends, the gateway's calls are
committed first, then the attempt's rows and its state in one transaction. So a crash loses at most
attempts in flight; the next run finds those, records them as `infra_error` (worker lost) and makes
a new attempt. All of it under the sweep's lease: a process that was thought dead commits nothing.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from storage import BufferedWriter, Catalog, Lease, StoreError, commit
from storage import catalog as cat
from storage.writer import end_attempts
from tasks.agents.loop import Trajectory
from tasks.scoring import Score
from tasks.serving.engine import Engine
from tasks.serving.errors import ServingError
from tasks.serving.outside import Outside
from tasks.serving.services import GatewayClient
from tasks.sweeps.attempt import COUNTED, Attempts
from tasks.sweeps.entry import Entry
from tasks.sweeps.plan import Cell, Plan, Sample, finished_samples
from tasks.sweeps.records import Finished, attempt_rows, lost_attempt_row

STORE_GRACE_S = 15.0  # a store that takes nothing for longer ends the run; nothing is lost by then
WATCH_S = 0.5
RETRY_WAIT_S = 2.0


@dataclass(frozen=True)
class Services:
    """What a sweep needs running."""

    engine: Engine | Outside
    gateway: GatewayClient
    search_url: str | None
    """None where the tasks have nothing to search."""
    others: tuple[Engine | Outside, ...] = ()
    """What serves the other models: judge, user, experts."""


@dataclass
class Progress:
    """How far a cell is; handed to `on_progress` after every attempt."""

    cell: Cell
    total: int
    done: int = 0
    counted: int = 0
    correct: int = 0
    infra: int = 0


async def run_cell(
    plan: Plan,
    cell: Cell,
    services: Services,
    catalog: Catalog,
    run_id: str,
    lease: Lease,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Run what is missing of `cell` under the sweep's lease.

    Raises EngineFailed, GatewayFailed or StoreError, LeaseLost when another took the sweep over.

    On any error what is finished is committed; the same call again does the rest.
    """
    finished = finished_samples(catalog, cell)
    progress = Progress(cell, len(cell.samples), done=len(finished))
    on_progress(progress)
    _record_lost(plan, cell, catalog, lease)
    missing = [sample for sample in cell.samples if sample.sample_id not in finished]
    if not missing:
        return progress
    session = _CellRun(plan, cell, services, catalog, run_id, lease, progress, on_progress)
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
        lease: Lease,
        progress: Progress,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.plan, self.cell, self.services = plan, cell, services
        self.catalog, self.run_id, self.lease = catalog, run_id, lease
        self.progress, self.on_progress = progress, on_progress
        self.entry = Entry(cell, catalog, run_id, lease)

    async def run(self, missing: list[Sample]) -> None:
        """Sessions take samples in order until none is left."""
        # An attempt is never there without its calls, so the gateway's rows go first.
        before = self._flush_gateway
        self.writer = BufferedWriter(self.catalog, lease=self.lease, before=before)
        _set_status(self.catalog, self.cell, "running")
        cell, limit = self.cell, self.plan.suite.cap
        gateway = self.services.gateway
        await asyncio.to_thread(
            gateway.begin_cell, cell.cell_id, cell.policy, limit, cell.concurrency
        )
        queue, services = iter(missing), self.services
        attempts = Attempts(
            self.plan, cell, gateway.url, services.search_url or self.plan.suite.search_url
        )
        async with attempts as self.attempts:
            sessions = [
                asyncio.create_task(self._session(queue)) for _ in range(self.cell.concurrency)
            ]
            engines = (services.engine, *services.others)
            guards = [asyncio.create_task(engine.watch()) for engine in engines]
            guards.append(asyncio.create_task(self._watch_store()))
            try:
                await _all_or_first_failure(sessions, guards)
            finally:
                for task in [*sessions, *guards]:
                    task.cancel()
                await asyncio.gather(*sessions, *guards, return_exceptions=True)
                await asyncio.to_thread(self.writer.close)
        await asyncio.to_thread(gateway.end_cell)

    async def _session(self, queue: Iterator[Sample]) -> None:
        for sample in queue:
            for nth in range(self.plan.suite.max_attempts):
                # Longer than the guards need to notice a dead engine, so that its death costs
                # each session one attempt and not all of them.
                await asyncio.sleep(nth * RETRY_WAIT_S)
                if (await self._attempt(sample)).status != "infra_error":
                    break

    async def _attempt(self, sample: Sample) -> Trajectory:
        attempt, attempt_id = await self.entry.enter(sample)
        trajectory, score = await self.attempts.make(sample, attempt_id)
        await self._keep(Finished(sample, attempt_id, attempt, trajectory, score))
        self._count(trajectory, score)
        await self.attempts.release(sample, attempt_id)
        return trajectory

    def _count(self, trajectory: Trajectory, score: Score | None) -> None:
        progress = self.progress
        if trajectory.status == "infra_error":
            progress.infra += 1
        else:
            progress.done += 1
            progress.counted += trajectory.status in COUNTED
            progress.correct += score is not None and score.correct
        self.on_progress(progress)

    async def _keep(self, done: Finished) -> None:
        """Give the attempt to the writer; waits, on a thread, while the writer has no room."""
        rows = attempt_rows(self.plan, self.cell, done, self.run_id)
        ended = {done.attempt_id: done.trajectory.status}
        if not self.writer.offer(rows, ended):
            await asyncio.to_thread(self.writer.put, rows, ended=ended)

    def _flush_gateway(self) -> None:
        try:
            self.services.gateway.flush()
        except ServingError as error:
            raise StoreError(f"calls could not be committed: {error}") from error

    async def _watch_store(self) -> None:
        while self.writer.failing_s < STORE_GRACE_S:
            await asyncio.sleep(WATCH_S)
        await asyncio.to_thread(self.writer.flush)  # raises why


def _record_lost(plan: Plan, cell: Cell, catalog: Catalog, lease: Lease) -> None:
    """Record attempts that an earlier process left running; by the lease it can end none itself."""
    states = cat.attempt_states
    lost = catalog.rows(
        sa.select(states).where(states.c.cell_id == cell.cell_id, states.c.state == "running")
    )
    if not lost:
        return

    def complete(connection: sa.Connection) -> None:
        end_attempts(connection, {row["attempt_id"]: "infra_error" for row in lost})

    rows = {"attempts": [lost_attempt_row(plan, cell, row) for row in lost]}
    commit(catalog, rows, complete, lease)


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
