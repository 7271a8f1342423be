"""Several teachers for one job, with one store of answers and one budget.

In: endpoints, a budget, a work folder. Out: teachers that share a meter and a store, so that a
killed run pays for nothing twice.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.tasks.synthesis.teacher import (
    Meter,
    Teacher,
    TeacherBudget,
    TeacherClient,
    TeacherEndpoint,
    TeacherPrices,
    TeacherSampling,
    open_store,
)

NO_LIMIT, USUAL = TeacherBudget(), TeacherSampling()


@dataclass(frozen=True)
class TeacherPool:
    """The models of a job, and its budget."""

    endpoints: Sequence[TeacherEndpoint]
    prices: Sequence[TeacherPrices | None]
    """The prices of each model."""
    budget: TeacherBudget = NO_LIMIT
    concurrency: int = 8
    sampling: TeacherSampling = USUAL

    @property
    def dearest(self) -> TeacherPrices | None:
        """The highest prices, by which a budget reserves so that it is never exceeded; None if one
        is unknown."""
        known = [each for each in self.prices if each is not None]
        if not known or len(known) < len(self.prices):
            return None
        highest = (max(each.prompt for each in known), max(each.completion for each in known))
        return TeacherPrices(*highest)


@contextlib.asynccontextmanager
async def open_teachers(
    pool: TeacherPool, work: Path
) -> AsyncIterator[tuple[Sequence[Teacher], Meter]]:
    """Open the teachers, in the order of their endpoints, and their meter. Raises UsageError."""
    meter = Meter(pool.budget, pool.dearest)
    async with contextlib.AsyncExitStack() as stack:
        store = stack.enter_context(open_store(work))
        teachers = []
        for endpoint in pool.endpoints:
            client = await stack.enter_async_context(TeacherClient(endpoint, store))
            teachers.append(Teacher(client, store, meter, pool.sampling, pool.concurrency))
        yield teachers, meter
