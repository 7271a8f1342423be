"""Enter attempts before their first call: those that wait at the same time in one transaction.

A transaction of the catalog costs a millisecond, of which hundreds of sessions would each pay one.
"""

import asyncio

import sqlalchemy as sa

from tutti.storage import Catalog, Lease, artifact_id, check_lease
from tutti.storage import catalog as cat
from tutti.tasks.sweeps.plan import Cell, Sample

IDS_AT_ONCE = 500  # bound variables of one statement
Waiting = tuple[Sample, "asyncio.Future[tuple[int, str]]"]


class Entry:
    """Enters the attempts of one cell."""

    def __init__(self, cell: Cell, catalog: Catalog, run_id: str, lease: Lease) -> None:
        self._cell, self._catalog, self._run_id, self._lease = cell, catalog, run_id, lease
        self._waiting: list[Waiting] = []
        self._work: asyncio.Task[None] | None = None

    async def enter(self, sample: Sample) -> tuple[int, str]:
        """The number and id of the sample's next attempt, which is in the catalog as running.

        Raises LeaseLost, StoreError.
        """
        entered: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._waiting.append((sample, entered))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._enter_waiting())
        return await entered

    async def _enter_waiting(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:IDS_AT_ONCE], self._waiting[IDS_AT_ONCE:]
            try:
                attempts = await asyncio.to_thread(self._enter, [sample for sample, _ in taken])
            except Exception as error:  # whoever waits hears of it
                _fail(taken, error)
                continue
            for (_, entered), attempt in zip(taken, attempts, strict=True):
                if not entered.done():  # a session that was cancelled: the next run finds it lost
                    entered.set_result(attempt)

    def _enter(self, samples: list[Sample]) -> list[tuple[int, str]]:
        states = cat.attempt_states
        ids = [sample.sample_id for sample in samples]
        assert len(set(ids)) == len(ids), "a sample has one attempt at a time"
        with self._catalog.transaction() as connection:
            check_lease(connection, self._lease)
            latest = sa.select(states.c.sample_id, sa.func.max(states.c.attempt)).where(
                states.c.sample_id.in_(ids)
            )
            known = {row[0]: row[1] for row in connection.execute(latest.group_by("sample_id"))}
            attempts = [known.get(each, 0) + 1 for each in ids]
            named = [
                (attempt, artifact_id("attempt", [each, attempt]))
                for each, attempt in zip(ids, attempts, strict=True)
            ]
            rows = [
                {
                    "attempt_id": attempt_id,
                    "cell_id": self._cell.cell_id,
                    "attempt": attempt,
                    "sample_id": sample.sample_id,
                    "task_id": sample.problem.task_id,
                    "trial": sample.trial,
                    "run_id": self._run_id,
                    "state": "running",
                    "lease_token": self._lease.token,
                    "started_at": cat.now(),
                }
                for sample, (attempt, attempt_id) in zip(samples, named, strict=True)
            ]
            connection.execute(sa.insert(states), rows)
        return named


def _fail(waiting: list[Waiting], error: Exception) -> None:
    for _, entered in waiting:
        if not entered.done():
            entered.set_exception(error)
