"""Tests of batches: responses arrive in any order, rows that fail or expire continue as single
calls, and a later process finds the batch of one that was killed."""

import asyncio

import pytest
from pydantic import BaseModel

from tests.synthesis.teacher.conftest import NewTeacher, fault_counts
from tests.synthesis.teacher.scripted_endpoint import ScriptedEndpoint, serving
from tutti.tasks.synthesis.teacher import BudgetSpent, Question, TeacherBudget
from tutti.tasks.synthesis.teacher.batch import Polling, prefetch

QUICK = Polling(every_s=0.02, most_s=2.0)
SCRIPT = {f"q{n}": [{"n": n}] for n in range(4)}


class Number(BaseModel):
    """Response with a number."""

    n: int


QUESTIONS = [Question(f"q{n}", f"Give {n}.", Number) for n in range(4)]
VALUES = [Number(n=n) for n in range(4)]


async def by_batch(
    endpoint: ScriptedEndpoint, new_teacher: NewTeacher, polling: Polling = QUICK
) -> dict[str, int]:
    """Send all requests in a batch and return the faults."""
    async with new_teacher(endpoint) as teacher:
        await prefetch(teacher, QUESTIONS, polling)
        assert await teacher.ask_all(QUESTIONS) == VALUES
        return fault_counts(teacher.store)


def single_calls(endpoint: ScriptedEndpoint) -> int:
    return sum(not name.startswith("batch:") for name, _, _ in endpoint.asked)


async def test_rows_are_matched_by_id_in_any_order(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        assert await by_batch(endpoint, new_teacher) == {}
        assert single_calls(endpoint) == 0


async def test_rows_of_an_expired_batch_go_on_as_single_calls(new_teacher: NewTeacher) -> None:
    expiring = ScriptedEndpoint(SCRIPT, batch_end="expired", batch_rows=1)
    async with serving(expiring) as endpoint:
        assert await by_batch(endpoint, new_teacher) == {"batch_expired": 3}
        assert single_calls(endpoint) == 3
        assert set(endpoint.answered.values()) == {1}


async def test_rows_that_failed_go_on_as_single_calls(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT, batch_rows=2)) as endpoint:
        assert await by_batch(endpoint, new_teacher) == {"batch_row_failed": 2}
        assert single_calls(endpoint) == 2


async def test_a_batch_that_never_ends_is_cancelled(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT, polls_before_end=10**9)) as endpoint:
        short = Polling(every_s=0.02, most_s=0.1)
        assert await by_batch(endpoint, new_teacher, short) == {"batch_expired": 4}
        assert endpoint.batches["batch-0"]["status"] == "cancelled"


async def test_an_endpoint_without_batches_is_on_record(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        where = endpoint.url
        endpoint.url = where.removesuffix("/v1") + "/none/v1"
        async with new_teacher(endpoint) as teacher:
            await prefetch(teacher, QUESTIONS, QUICK)
            assert fault_counts(teacher.store) == {"batch_unavailable": 1}
            assert teacher.meter.reserve(1, 1) == 0.0


async def test_a_later_process_finds_the_batch(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT, polls_before_end=10**9)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            waiting = asyncio.create_task(prefetch(teacher, QUESTIONS, QUICK))
            while not endpoint.batches or not endpoint.batches["batch-0"]["polls"]:
                await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.wait([waiting])
        endpoint.polls_before_end = 0
        assert await by_batch(endpoint, new_teacher) == {}
        assert (len(endpoint.batches), single_calls(endpoint)) == (1, 0)


async def test_a_batch_whose_id_was_not_written_is_found_by_its_key(
    new_teacher: NewTeacher,
) -> None:
    """The process was killed after the submission and before it wrote the id."""
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        async with new_teacher(endpoint) as teacher:
            await prefetch(teacher, QUESTIONS, QUICK)
            key = endpoint.batches["batch-0"]["metadata"]["tutti_batch"]
            teacher.store.keep_batch(key, "", "submitting")
            teacher.store._sql.execute("delete from answers")
            await prefetch(teacher, QUESTIONS, QUICK)
        assert len(endpoint.batches) == 1


async def test_a_budget_holds_for_batches(new_teacher: NewTeacher) -> None:
    async with serving(ScriptedEndpoint(SCRIPT)) as endpoint:
        async with new_teacher(endpoint, TeacherBudget(calls=3)) as teacher:
            with pytest.raises(BudgetSpent):
                await prefetch(teacher, QUESTIONS, QUICK)
        assert not endpoint.batches
