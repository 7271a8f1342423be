"""Fixtures of the teacher's tests: an open teacher on a scripted endpoint."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint
from tutti.tasks.agents.models import Retry
from tutti.tasks.synthesis.teacher import (
    Meter,
    Teacher,
    TeacherBudget,
    TeacherClient,
    TeacherEndpoint,
    TeacherPrices,
    open_store,
)
from tutti.tasks.synthesis.teacher.store import TeacherStore

QUICK = Retry({0: 2, 408: 2, 429: 6, 500: 3}, first_s=0.01, most_s=0.02, deadline_s=5.0)
NO_LIMIT = TeacherBudget()
NewTeacher = Callable[..., AbstractAsyncContextManager[Teacher]]


def fault_counts(store: TeacherStore) -> dict[str, int]:
    """Number of faults by kind."""
    return dict(Counter(kind for _, kind, _ in faults(store)))


def faults(store: TeacherStore) -> list[tuple[str, str, str]]:
    """All faults, oldest first: question, kind, remedy."""
    return list(store._sql.execute("select question, kind, remedy from faults order by rowid"))


@pytest.fixture
def new_teacher(tmp_path: Path) -> NewTeacher:
    """Return a function that opens a teacher in the test's work folder."""

    @asynccontextmanager
    async def open_new(
        endpoint: ScriptedEndpoint,
        budget: TeacherBudget = NO_LIMIT,
        prices: TeacherPrices | None = None,
        call_s: float = 5.0,
        **more: Any,
    ) -> AsyncIterator[Teacher]:
        where = TeacherEndpoint(endpoint.url, "m", call_s=call_s, retry=QUICK)
        with open_store(tmp_path / "work") as store:
            async with TeacherClient(where, store) as client:
                yield Teacher(client, store, Meter(budget, prices), **more)

    return open_new
