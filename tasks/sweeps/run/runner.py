"""Run cells: sessions over a cell's samples, every attempt committed exactly once.

An attempt is entered in the catalog before its first call. When it ends, the gateway's calls are
committed first, then its rows and its state in one transaction, all under the sweep's lease. So a
crash loses at most attempts in flight; the next run records those as `cancelled` (worker lost) and
makes new ones. Once a second the lateness of the event loop and the CPU of this process are
recorded: a cell's figures are the engine's only as long as these are small.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from tutti.storage import (
    COUNTED,
    BufferedWriter,
    Catalog,
    Cost,
    Lease,
    LeaseLost,
    StoreError,
    check_lease,
    commit,
    end_attempts,
)
from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.tasks.agents import Trajectory
from tutti.tasks.serving import ServingError
from tutti.tasks.sweeps.plan import (
    Cell,
    Deployment,
    EndReason,
    Plan,
    Sample,
    finished_samples,
    sandbox_level,
    unpriced_models,
)
from tutti.tasks.sweeps.run.attempt import Attempts
from tutti.tasks.sweeps.run.budget import BudgetTracker
from tutti.tasks.sweeps.run.early_stop import Watch, watches_of
from tutti.tasks.sweeps.run.failures import Failures, LateAttempts
from tutti.tasks.sweeps.run.queue import DueSample, SampleQueue
from tutti.tasks.sweeps.run.records import (
    LATE,
    WORKER_LOST,
    AttemptEntry,
    LostReason,
    RunningAttempt,
    attempt_rows,
    lost_attempt_row,
)

TICK_S, ROW_S = 0.02, 1.0
CLIENT = "client"
LAG, CPU, SESSIONS = "client:loop_lag_seconds", "client:cpu_share", "client:sessions"
PAUSED = "client:paused"  # a row where a pause begins


async def watch_client(
    key: dict[str, Any], sessions: Callable[[], int], add: Callable[[str, dict[str, Any]], object]
) -> None:
    """Add rows until cancelled. `key`: the row's sweep_id and cell_id; `add`: (table, row)."""
    loop = asyncio.get_running_loop()
    began, cpu, worst = loop.time(), time.process_time(), 0.0
    while True:
        due = loop.time() + TICK_S
        await asyncio.sleep(TICK_S)
        now = loop.time()
        worst = max(worst, now - due)
        if now - began < ROW_S:
            continue
        used = time.process_time()
        figures = {LAG: worst, CPU: (used - cpu) / (now - began), SESSIONS: float(sessions())}
        for name, value in figures.items():
            add("server_metrics", key | client_row(name, value))
        began, cpu, worst = now, used, 0.0


def client_row(name: str, value: float) -> dict[str, Any]:
    """A row of `server_metrics` that is of the client, without its sweep and cell."""
    return {"engine_id": CLIENT, "at": cat.now(), "name": name, "value": value}


STORE_GRACE_S = 15.0  # a store that takes nothing for longer ends the run; nothing is lost by then
WATCH_S = 0.5
RETRY_WAIT_S = 2.0


@dataclass(frozen=True)
class Execution:
    """One run of a plan, shared by its cells."""

    plan: Plan
    deployment: Deployment
    catalog: Catalog
    run_id: str
    lease: Lease
    spending: BudgetTracker
    late_factor: float | None = None
    """Attempts are cut after so many times the median duration, once most have ended."""


@dataclass
class Progress:
    """The progress of a cell; passed to `on_progress` after every attempt."""

    cell: Cell
    total: int
    done: int = 0
    counted: int = 0
    correct: int = 0
    infra: int = 0
    paused: bool = False
    reason: str = ""
    """Why no more samples are given out, once it is so."""


async def run_cell(
    execution: Execution,
    cell: Cell,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Run the missing samples of `cell` under the sweep's lease, within what the run may spend.

    Raises EngineFailed, GatewayFailed, StoreError, or LeaseLost when another took the sweep over;
    finished samples are committed then, and the same call does the rest.
    """
    plan, catalog, lease = execution.plan, execution.catalog, execution.lease
    finished = finished_samples(catalog, cell)
    progress = Progress(cell, len(cell.samples), done=len(finished))
    on_progress(progress)
    _record_lost(plan, cell, catalog, lease)
    missing = [sample for sample in cell.samples if sample.sample_id not in finished]
    if not missing:
        return progress
    cell_run = _CellRun(execution, cell, progress, on_progress)
    status: str = "incomplete"
    reason: EndReason | None = None
    try:
        await cell_run.run(missing)
        if cell_run.late is not None:
            _record_lost(plan, cell, catalog, lease, LATE)
        if len(finished_samples(catalog, cell)) == progress.total:
            status = cat.FINISHED
        else:
            reason = cell_run.tap.reason
            status = cat.ENDED_EARLY if reason is not None and reason.ends_cell else status
    finally:
        with contextlib.suppress(LeaseLost):  # the process that has the sweep now sets the status
            _set_status(catalog, cell, lease, status, reason)
    return progress


class _CellRun:
    def __init__(
        self,
        execution: Execution,
        cell: Cell,
        progress: Progress,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.plan, self.cell, self.deployment = execution.plan, cell, execution.deployment
        self.catalog, self.lease = execution.catalog, execution.lease
        self.run_id = execution.run_id
        self.progress, self.on_progress = progress, on_progress
        self.spending, self.unpriced = execution.spending, unpriced_models(self.plan)
        self.entry = AttemptEntry(cell, self.catalog, self.run_id, self.lease)
        self.watches = watches_of(self.plan, cell, self.catalog)
        self.failures = Failures(answered=progress.done > 0)
        factor = execution.late_factor
        self.late = None if factor is None else LateAttempts(factor, progress.total)
        self.refused: list[Exception] = []  # errors of attempts that the store refused
        self.running = 0
        self.key = {"sweep_id": self.plan.sweep_id, "cell_id": cell.cell_id}

    async def run(self, missing: list[Sample]) -> None:
        """Let sessions take samples in order until the queue ends."""
        level = sandbox_level(self.plan)
        _set_status(self.catalog, self.cell, self.lease, "running", sandbox=level)
        cell, suite, gateway = self.cell, self.plan.suite, self.deployment.gateway
        for engine in self.deployment.every:
            await asyncio.to_thread(engine.reset)  # no cell finds another's prefixes in the cache
        policy = (cell.scheduling.name, cell.scheduling.options)
        await asyncio.to_thread(gateway.begin_cell, cell.cell_id, *policy, cell.concurrency)
        search_url = suite.roles.search_url or self.deployment.search_url
        attempts = Attempts(self.plan, cell, gateway.url, search_url, self._step_ended)
        async with attempts as self.attempts:
            # An attempt is never there without its calls, so the gateway's rows go first.
            before = self._flush_gateway
            self.writer = BufferedWriter(self.catalog, lease=self.lease, before=before)
            due_s = suite.load.due_times(cell.concurrency, len(cell.samples), cell.seed)
            # Of a cell that is resumed only the rest is due, from now on, as far apart as before.
            skipped = 0 if due_s is None else len(due_s) - len(missing)
            left = None if due_s is None else [at - due_s[skipped] for at in due_s[skipped:]]
            self.tap = SampleQueue(missing, left)
            if await asyncio.to_thread(is_paused, self.catalog, self.plan.sweep_id):
                self._pause(True)
            sessions = [
                asyncio.create_task(self._session(start_s))
                for start_s in suite.load.ramp_starts(cell.concurrency)
            ]
            # Beside the sessions: each raises when they cannot go on, or closes the tap.
            works = [
                *(engine.watch() for engine in self.deployment.every),
                *(self._watch_store(), self._watch_orders()),
                *(() if self.late is None else (self._watch_late(self.late),)),
                watch_client(self.key, lambda: self.running, self.writer.add),
            ]
            guards = [asyncio.create_task(each) for each in works]
            try:
                await _all_or_first_failure(sessions, guards)
            finally:
                for task in [*sessions, *guards]:
                    task.cancel()
                await asyncio.gather(*sessions, *guards, return_exceptions=True)
                await asyncio.to_thread(self.writer.close)
            self._check_refused()
        await asyncio.to_thread(gateway.end_cell)

    async def _session(self, start_s: float) -> None:
        await self.tap.until(start_s)
        while (due := await self.tap.take()) is not None:
            self.running += 1
            try:
                if self.late is None:
                    await self._sample(due)
                elif not await self.late.make(due.sample, asyncio.create_task(self._sample(due))):
                    attempt_id = self.late.attempt_of[due.sample.sample_id]
                    await self.attempts.release(due.sample, attempt_id)
            finally:
                self.running -= 1

    async def _watch_late(self, late: LateAttempts) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            if self.tap.is_empty:
                self._close_if(late.cut(self.progress.done))

    async def _sample(self, due: DueSample) -> None:
        for nth in range(self.plan.suite.limits.max_attempts):
            # Longer than the guards need to notice a dead engine, so that its death costs
            # each session one attempt and not all of them.
            await asyncio.sleep(nth * RETRY_WAIT_S)
            done = await self._attempt(due)
            if self.failures.is_final(done):
                break

    async def _attempt(self, due: DueSample) -> Trajectory:
        entered = await self.entry.enter(due)
        if self.late is not None:
            self.late.attempt_of[due.sample.sample_id] = entered.attempt_id
        settle = self.failures.settle
        trajectory = await self.attempts.make(due.sample, entered.attempt_id, settle)
        await self._keep(entered, trajectory)
        self._count(due.sample, trajectory)
        await self.attempts.release(due.sample, entered.attempt_id)
        return trajectory

    def _count(self, sample: Sample, trajectory: Trajectory) -> None:
        progress, score = self.progress, trajectory.score
        aside, self.attempts.aside = self.attempts.aside, Cost()
        self.spending.add(trajectory.cost, not self.unpriced.own)
        self.spending.add(aside, not self.unpriced.aside)
        if trajectory.status == "infra_error":
            progress.infra += 1
        else:
            progress.done += 1
            scored = trajectory.status in COUNTED and self.plan.config.task_set.benchmark.is_scored
            progress.counted += scored
            progress.correct += score is not None and score.correct
            if scored:
                value = 0.0 if score is None else score.value
                task_id, trial = sample.task.task_id, sample.trial
                self._update_watches(lambda watch: watch.sample(task_id, trial, value))
        self._close_if(self.spending.spent())
        self.on_progress(progress)

    def _step_ended(self, seconds: float) -> None:
        self._update_watches(lambda watch: watch.step(seconds))

    def _update_watches(self, update: Callable[[Watch], None]) -> None:
        for reason, watch in self.watches:
            update(watch)
            if (verdict := watch.verdict()) is not None:
                self._close_if(replace(reason, text=reason.text + verdict))

    def _close_if(self, reason: EndReason | None) -> None:
        if reason is not None:
            self.tap.close(reason)
            self.progress.reason = (self.tap.reason or reason).text

    async def _keep(self, entered: RunningAttempt, trajectory: Trajectory) -> None:
        rows = attempt_rows(self.plan, self.cell, entered, trajectory, self.run_id)
        ended = {entered.attempt_id: trajectory.status}
        if not self.writer.offer(rows, ended, refused := self.refused.append):
            await asyncio.to_thread(partial(self.writer.put, rows, ended=ended, on_refused=refused))

    def _flush_gateway(self) -> None:
        try:
            self.deployment.gateway.flush()
        except ServingError as error:
            raise StoreError(f"calls could not be committed: {error}") from error

    async def _watch_orders(self) -> None:
        last, worked_s = time.monotonic(), 0.0
        too_long = EndReason.asked_by(self.plan.suite).get(CellReason.TIME_LIMIT)
        while True:
            await asyncio.sleep(WATCH_S)
            now = time.monotonic()
            worked_s += 0.0 if self.progress.paused else now - last
            last = now
            if too_long is not None and worked_s >= (too_long.value or 0):
                self._close_if(too_long)
            self._close_if(self.spending.spent())
            try:
                paused = await asyncio.to_thread(is_paused, self.catalog, self.plan.sweep_id)
            except StoreError:
                continue  # the writer says it when the store stays away
            if paused != self.progress.paused:
                self._pause(paused)

    def _pause(self, paused: bool) -> None:
        self.progress.paused = paused
        if paused:
            self.tap.pause()
            # No window lies across a pause.
            self.writer.add("server_metrics", self.key | client_row(PAUSED, 1.0))
        else:
            self.tap.resume()
        self.on_progress(self.progress)

    async def _watch_store(self) -> None:
        while self.writer.failing_s < STORE_GRACE_S:
            self._check_refused()
            await asyncio.sleep(WATCH_S)
        await asyncio.to_thread(self.writer.flush)  # raises why

    def _check_refused(self) -> None:
        if self.refused:
            raise self.refused[0]


def _record_lost(
    plan: Plan, cell: Cell, catalog: Catalog, lease: Lease, why: LostReason = WORKER_LOST
) -> None:
    """Record attempts that were cut, or that an earlier process left running and cannot end without
    the lease."""
    states = cat.attempt_states
    lost = catalog.rows(
        sa.select(states).where(states.c.cell_id == cell.cell_id, states.c.state == "running")
    )
    if not lost:
        return

    def complete(connection: sa.Connection) -> None:
        end_attempts(connection, {row["attempt_id"]: "cancelled" for row in lost})

    rows = {"attempts": [lost_attempt_row(plan, cell, row, why) for row in lost]}
    commit(catalog, rows, complete, lease)


def is_paused(catalog: Catalog, sweep_id: str) -> bool:
    sweeps = cat.sweeps.c
    rows = catalog.rows(sa.select(sweeps.paused_at).where(sweeps.sweep_id == sweep_id))
    return bool(rows) and rows[0]["paused_at"] is not None


def _set_status(
    catalog: Catalog,
    cell: Cell,
    lease: Lease,
    status: str,
    reason: EndReason | None = None,
    **more: str | None,
) -> None:
    """Set the status under the lease. Raises LeaseLost, and changes nothing then."""
    values: dict[str, Any] = {"status": status, **more}
    values |= EndReason.columns_of(reason)
    values["started_at" if status == "running" else "ended_at"] = cat.now()
    with catalog.transaction() as connection:
        check_lease(connection, lease)
        connection.execute(
            sa.update(cat.cells).where(cat.cells.c.cell_id == cell.cell_id).values(values)
        )


async def _all_or_first_failure(
    sessions: list["asyncio.Task[None]"], guards: list["asyncio.Task[None]"]
) -> None:
    pending: set[asyncio.Task[None]] = {*sessions, *guards}
    while not all(session.done() for session in sessions):
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
