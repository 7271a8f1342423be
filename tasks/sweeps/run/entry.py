"""Enter attempts before their first call: those that wait at the same time in one transaction.

A transaction of the catalog costs a millisecond, of which hundreds of sessions would each pay one.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from tutti.storage import Catalog, Lease, artifact_id, check_lease
from tutti.storage import catalog as cat
from tutti.tasks.sweeps.plan import Cell, Sample
from tutti.tasks.sweeps.run.queue import DueSample

IDS_AT_ONCE = 500  # bound variables of one statement


@dataclass(frozen=True)
class RunningAttempt:
    """An attempt that is in the catalog as running."""

    sample: Sample
    number: int
    """1 for a sample's first attempt."""
    attempt_id: str
    due_at: datetime | None = None
    """When it was meant to start; None in a closed loop and for later attempts of a sample."""


Waiting = tuple[DueSample, "asyncio.Future[RunningAttempt]"]


class AttemptEntry:
    """Enters the attempts of one cell."""

    def __init__(self, cell: Cell, catalog: Catalog, run_id: str, lease: Lease) -> None:
        self._cell, self._catalog, self._run_id, self._lease = cell, catalog, run_id, lease
        self._waiting: list[Waiting] = []
        self._work: asyncio.Task[None] | None = None

    async def enter(self, due: DueSample) -> RunningAttempt:
        """The next attempt of the sample that is due, which is in the catalog as running then.

        Raises LeaseLost, StoreError.
        """
        entered: asyncio.Future[RunningAttempt] = asyncio.get_running_loop().create_future()
        self._waiting.append((due, entered))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._enter_waiting())
        return await entered

    async def _enter_waiting(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:IDS_AT_ONCE], self._waiting[IDS_AT_ONCE:]
            try:
                attempts = await asyncio.to_thread(self._enter, [due for due, _ in taken])
            except Exception as error:  # whoever waits hears of it
                _fail(taken, error)
                continue
            for (_, entered), attempt in zip(taken, attempts, strict=True):
                if not entered.done():  # a session that was cancelled: the next run finds it lost
                    entered.set_result(attempt)

    def _enter(self, every: list[DueSample]) -> list[RunningAttempt]:
        states = cat.attempt_states
        ids = [due.sample.sample_id for due in every]
        assert len(set(ids)) == len(ids), "a sample has one attempt at a time"
        with self._catalog.transaction() as connection:
            check_lease(connection, self._lease)
            latest = sa.select(states.c.sample_id, sa.func.max(states.c.attempt)).where(
                states.c.sample_id.in_(ids)
            )
            known = {row[0]: row[1] for row in connection.execute(latest.group_by("sample_id"))}
            attempts = [_next_attempt(due, known) for due in every]
            rows = [
                {
                    "attempt_id": each.attempt_id,
                    "cell_id": self._cell.cell_id,
                    "attempt": each.number,
                    "sample_id": each.sample.sample_id,
                    "task_id": each.sample.task.task_id,
                    "trial": each.sample.trial,
                    "run_id": self._run_id,
                    "state": "running",
                    "lease_token": self._lease.token,
                    "started_at": cat.now(),
                }
                for each in attempts
            ]
            connection.execute(sa.insert(states), rows)
        return attempts


def _next_attempt(due: DueSample, known: Mapping[str, int]) -> RunningAttempt:
    """`known`: the number of the last attempt of each sample that had one."""
    sample_id = due.sample.sample_id
    number = known.get(sample_id, 0) + 1
    # A later attempt is due when the one before it has failed, not at a time of the schedule.
    due_at = due.at if number == 1 else None
    return RunningAttempt(due.sample, number, artifact_id("attempt", [sample_id, number]), due_at)


def _fail(waiting: list[Waiting], error: Exception) -> None:
    for _, entered in waiting:
        if not entered.done():
            entered.set_exception(error)
