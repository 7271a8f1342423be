"""Tests of attempts that take far longer than the others: cut if configured, waited for
otherwise."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.sweeps.conftest import SUITE, Sweep, make_tasks, plan_of
from tutti.storage.catalog import leasing as leases
from tutti.tasks.sweeps.plan.plan import Sample
from tutti.tasks.sweeps.run.failures import LateAttempts
from tutti.tasks.sweeps.run.runner import run_cell

CELLS = "select status, reason_code, reason_value from cells"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tutti.tasks.sweeps.run.runner.WATCH_S", 0.02)


async def run_with(sweep: Sweep, count: int, stuck: int, **more: Any) -> Any:
    """Run a cell whose first tasks never end, within a time limit."""
    plan = plan_of(SUITE.with_fields({"concurrency": (count,)}), count)
    cell = sweep.enter(plan)
    sweep.agent.odd = {f"what is {i} + 1": [asyncio.Event()] * 9 for i in range(stuck)}
    lease = leases.acquire(sweep.catalog, plan.sweep_id, seconds=60)
    execution = replace(sweep.execution(plan, lease), **more)
    return await asyncio.wait_for(run_cell(execution, cell), 60), plan, cell


async def test_the_last_attempts_are_cut_and_are_no_wrong_answers(sweep: Sweep) -> None:
    """Cut attempts are `cancelled` and count nowhere, and the cell is finished: no part of it runs
    again."""
    progress, _, _ = await run_with(sweep, 20, 1, late_factor=50.0)
    assert progress.done == 19 and "times the median" in progress.reason
    assert sweep.sql(CELLS) == [("ended_early", "late", 50.0)]
    late = "select status, stop_reason, error_type, count(*) from attempts group by all order by 1"
    assert sweep.sql(late) == [("cancelled", "late", None, 1), ("ok", "answered", None, 19)]
    assert sweep.sql("select count(*) from attempts where correct is not null") == [(19,)]


async def test_none_is_cut_before_most_have_ended(sweep: Sweep) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run_with(sweep, 20, 3, late_factor=3.0), 2)


async def test_a_sweep_waits_for_all(sweep: Sweep) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run_with(sweep, 20, 1), 2)


async def test_a_session_that_ends_while_its_work_is_cut_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The session's own cancellation is not taken for the cut; its work has ended before."""
    late, cleaned = LateAttempts(2.0, 10), asyncio.Event()
    clock = [0.0]
    monkeypatch.setattr("tutti.tasks.sweeps.run.failures.time.monotonic", lambda: clock[0])
    sample = Sample("s", make_tasks(1)[0], 0)

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    async def quick() -> None:
        clock[0] = 1.0

    assert await late.make(sample, asyncio.create_task(quick()))
    session = asyncio.create_task(late.make(sample, asyncio.create_task(stuck())))
    await asyncio.sleep(0)
    clock[0] = 9.0
    assert late.cut(9) is not None
    session.cancel()
    with pytest.raises(asyncio.CancelledError):
        await session
    assert cleaned.is_set()


async def test_an_error_of_the_work_is_the_sessions() -> None:
    """The error ends the run, as without a limit."""

    async def failing() -> None:
        raise ValueError("the store is full")

    sample = Sample("s", make_tasks(1)[0], 0)
    with pytest.raises(ValueError, match="the store is full"):
        await LateAttempts(2.0, 10).make(sample, asyncio.create_task(failing()))
