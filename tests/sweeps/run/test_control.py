"""Tests of controlling a cell: paused, out of budget or time, watched, in open loop."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web

from tests.serving.engine_double import completion
from tests.sweeps.conftest import SUITE, Sweep, plan_of
from tutti.storage import Cost, LeaseLost, StoreBusy
from tutti.storage import catalog as cat
from tutti.storage.catalog import CellReason
from tutti.storage.catalog import leasing as leases
from tutti.tasks.serving import EngineFailed
from tutti.tasks.sweeps.plan.enter import enter_plan
from tutti.tasks.sweeps.plan.missing import EndReason, missing_cells
from tutti.tasks.sweeps.plan.plan import Plan
from tutti.tasks.sweeps.run.budget import BudgetTracker
from tutti.tasks.sweeps.run.early_stop import watches_of
from tutti.tasks.sweeps.run.runner import Progress, run_cell
from tutti.tasks.sweeps.spec.groups import Budget
from tutti.tasks.sweeps.spec.load import Load

CELLS = "select status, reason from cells order by position"
CODES = "select reason_code, reason_value, reason_reference from cells order by position"


def plan_with(count: int = 6, **change: Any) -> Plan:
    """Return a plan of the small suite with other keys."""
    return plan_of(SUITE.with_fields(change), count)


async def test_a_budget_ends_the_run_and_the_next_goes_on(sweep: Sweep) -> None:
    """Running attempts are finished, nothing is lost, and the rest can be run."""
    plan = plan_with(12, concurrency=(2,))
    cell = sweep.enter(plan)
    lease = leases.acquire(sweep.catalog, plan.sweep_id, seconds=0)
    # 30 completion tokens at 10 USD a million: four
    execution = sweep.execution(plan, lease, usd=0.001)
    progress = await asyncio.wait_for(run_cell(execution, cell), 60)
    assert 4 <= progress.done <= 5 < progress.total
    spent = execution.spending.spent()
    assert spent is not None and progress.reason == spent.text
    assert spent.text == "the budget of 0.001 USD is spent (0.00)"
    assert sweep.sql(CELLS) == [("incomplete", progress.reason)]
    assert sweep.sql(CODES) == [("budget_usd", 0.001, None)]
    assert missing_cells(plan, sweep.catalog) == [cell]
    again = await sweep.run(plan, cell)
    assert again.done == 12 and sweep.sql(CELLS) == [("finished", None)]
    assert sweep.sql(CODES) == [(None, None, None)]
    assert sweep.sql("select count(*), count(distinct sample_id) from attempts") == [(12, 12)]


async def test_a_budget_that_cannot_be_counted_ends_the_run(sweep: Sweep) -> None:
    """The endpoint has prices and reports no usage: attempts in flight end, and no more start."""

    async def silent(_: web.Request, body: dict[str, Any]) -> web.Response:
        sweep.agent.asked.append("silent")
        return web.json_response(completion("\\boxed{1}", usage={}))

    sweep.double.reply = silent
    plan = plan_with(40, concurrency=(2,))
    cell = sweep.enter(plan)
    lease = leases.acquire(sweep.catalog, plan.sweep_id, seconds=0)
    execution = sweep.execution(plan, lease, usd=1000.0)
    progress = await asyncio.wait_for(run_cell(execution, cell), 20)
    assert len(sweep.agent.asked) <= 4 and 1 <= progress.done <= 3
    assert progress.reason.startswith("the budget of 1000 USD cannot be counted (at least 0.00): ")
    assert sweep.sql(CODES) == [("budget_usd", 1000.0, None)]
    assert sweep.sql("select distinct cost_usd from attempts") == [(None,)]
    again = await sweep.run(plan, cell)  # without a limit in USD
    assert again.done == 40


async def test_a_nights_budget_ends_the_run_of_a_stage(sweep: Sweep) -> None:
    """The stage's own budget does not matter."""
    plan = plan_with(40, concurrency=(2,))
    cell = sweep.enter(plan)
    lease = leases.acquire(sweep.catalog, plan.sweep_id, seconds=0)
    night = BudgetTracker(Budget(usd=0.001))
    execution = replace(
        sweep.execution(plan, lease), spending=BudgetTracker(Budget(usd=1000.0), night)
    )
    progress = await asyncio.wait_for(run_cell(execution, cell), 20)
    assert 4 <= progress.done <= 6
    assert progress.reason == "the budget of 0.001 USD is spent (0.00)"


def test_what_an_unpriced_model_costs_does_not_end_a_run() -> None:
    """The missing price is reported before the run; any other unknown cost ends it, in a part or in
    total."""
    whole = BudgetTracker(Budget(usd=1))
    part = BudgetTracker(Budget(), whole)
    part.add(Cost(0.25, 3), is_priced=False)
    assert part.limits_usd and not BudgetTracker(Budget()).limits_usd
    assert part.spent() is None and whole.cost == Cost(0.25, 3)
    part.add(Cost(0.25, 1))
    reason = part.spent()
    assert reason is not None and reason.code is CellReason.BUDGET_USD
    assert "cannot be counted (at least 0.50): the cost of 1 calls is unknown" in reason.text


def test_a_budget_of_time_is_spent_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget of time is measured on a monotonic clock."""
    now = [100.0]
    monkeypatch.setattr("tutti.tasks.sweeps.run.budget.time.monotonic", lambda: now[0])
    spending = BudgetTracker(Budget(minutes=2))
    assert spending.spent() is None
    now[0] += 120
    text = "the budget of 2 minutes is spent"
    assert spending.spent() == EndReason(CellReason.BUDGET_MINUTES, text, 2.0)


async def test_a_paused_sweep_gives_out_nothing_until_it_goes_on(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engine and gateway keep running; running attempts are finished."""
    monkeypatch.setattr("tutti.tasks.sweeps.run.runner.WATCH_S", 0.02)
    gate = asyncio.Event()
    plan = plan_with(6, concurrency=(2,))
    cell = sweep.enter(plan)
    sweep.agent.odd = {f"what is {i} + 1": [gate] for i in range(6)}
    seen: list[bool] = []
    lease = leases.acquire(sweep.catalog, plan.sweep_id, seconds=60)

    def show(state: Progress) -> None:
        seen.append(state.paused)

    running = asyncio.create_task(run_cell(sweep.execution(plan, lease), cell, show))
    while len(sweep.agent.asked) < 2:
        await asyncio.sleep(0.01)
    set_paused(sweep, cat.now())
    while not (seen and seen[-1]):
        await asyncio.sleep(0.01)
    gate.set()
    await asyncio.sleep(0.3)
    assert len(sweep.agent.asked) == 2 and not running.done()
    set_paused(sweep, None)
    progress = await asyncio.wait_for(running, 60)
    assert progress.done == 6 and seen[-1] is False


def set_paused(sweep: Sweep, at: Any) -> None:
    """Pause or resume as `tutti sweep pause` and `resume` do."""
    with sweep.catalog.transaction() as connection:
        connection.execute(sa.update(cat.sweeps).values(paused_at=at))


async def test_a_cell_ends_when_its_time_is_over(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell keeps its results and is not run again; the next plan without a limit continues
    it."""
    monkeypatch.setattr("tutti.tasks.sweeps.run.runner.WATCH_S", 0.02)

    async def slow(_: web.Request, body: dict[str, Any]) -> web.Response:
        await asyncio.sleep(0.1)
        return web.json_response(completion("\\boxed{1}"))

    sweep.double.reply = slow
    plan = plan_with(40, max_cell_s=1.5)
    cell = sweep.enter(plan)
    progress = await sweep.run(plan, cell)
    assert 2 <= progress.done < 40
    assert sweep.sql(CELLS) == [("ended_early", "its 1.5 s are over")]
    assert sweep.sql(CODES) == [("time_limit", 1.5, None)]
    assert missing_cells(plan, sweep.catalog) == []


async def test_an_over_saturated_cell_ends_early_and_stays_so(sweep: Sweep) -> None:
    """The end is a result: the cell is not run again under that limit, but under a higher one."""

    async def slow(_: web.Request, body: dict[str, Any]) -> web.Response:
        await asyncio.sleep(0.02)
        return web.json_response(completion("\\boxed{1}"))

    sweep.double.reply = slow
    limit = {"step_latency_p95": 0.001}
    plan = plan_with(600, concurrency=(8,), saturation=limit)
    cell = sweep.enter(plan)
    progress = await sweep.run(plan, cell)
    assert progress.done < 600
    ((status, reason),) = sweep.sql(CELLS)
    assert status == "ended_early" and reason.startswith("p95 limit 0.001 s: over-saturated: ")
    assert sweep.sql(CODES) == [("latency_limit", 0.001, None)]
    with sweep.catalog.transaction() as connection:  # the text decides nothing
        connection.execute(sa.update(cat.cells).values(reason="it was slow"))
    assert missing_cells(plan, sweep.catalog) == []
    higher = plan_with(600, concurrency=(8,), saturation={"step_latency_p95": 5.0})
    assert higher.cells[0].cell_id == cell.cell_id
    assert missing_cells(higher, sweep.catalog) == list(higher.cells)


async def test_a_cell_ends_once_its_accuracy_is_decided(sweep: Sweep) -> None:
    """The reference is the first policy's cell of its level, which runs to its end."""
    plan = plan_with(
        200, concurrency=(8,), policies=("passthrough", "cap"), stop_when_decided={"margin": 0.01}
    )
    enter_plan(plan, sweep.catalog)
    first, second = plan.cells
    assert (await sweep.run(plan, first)).done == 200

    async def wrong(_: web.Request, body: dict[str, Any]) -> web.Response:
        return web.json_response(completion("\\boxed{-1}"))

    sweep.double.reply = wrong
    progress = await sweep.run(plan, second)
    assert 3 <= progress.done < 60
    (_, (status, reason)) = sweep.sql(CELLS)
    assert status == "ended_early" and "accuracy is worse" in reason
    assert sweep.sql(CODES)[1] == ("accuracy_decided", 0.01, "passthrough")
    ((_, again),) = watches_of(plan, second, sweep.catalog)
    assert "accuracy is worse" in str(again.verdict()), "who goes on knows what has ended"
    assert watches_of(plan, first, sweep.catalog) == [], "what others are judged by is not judged"
    assert missing_cells(plan, sweep.catalog) == []
    wider = plan_with(
        200, concurrency=(8,), policies=("passthrough", "cap"), stop_when_decided={"margin": 0.02}
    )
    assert missing_cells(wider, sweep.catalog) == [wider.cells[1]]


async def test_an_open_loop_starts_samples_when_they_are_due(sweep: Sweep) -> None:
    """Other attempts need not have ended; the due time of each is stored."""
    gate = asyncio.Event()
    plan = plan_with(6, concurrency=(2,), load={"kind": "poisson", "session_s": 0.2})
    cell = sweep.enter(plan)
    sweep.agent.odd = {f"what is {i} + 1": [gate] for i in range(6)}
    lease = leases.acquire(sweep.catalog, plan.sweep_id, seconds=60)
    running = asyncio.create_task(run_cell(sweep.execution(plan, lease), cell))
    while len(sweep.agent.asked) < 6:  # none has ended, and all have begun
        await asyncio.sleep(0.01)
    gate.set()
    assert (await asyncio.wait_for(running, 60)).done == 6
    found = sweep.sql("select count(due_at), bool_and(due_at <= started_at) from attempts")
    assert found == [(6, True)]


async def test_the_rest_of_an_open_loop_is_due_from_when_the_cell_goes_on(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intervals are unchanged, and the hour before the first of them is skipped."""
    monkeypatch.setattr(Load, "due_times", lambda *_: [0.0, 0.0, 3600.0, 3600.01])
    plan = plan_with(4, concurrency=(2,), load={"kind": "poisson", "session_s": 0.2})
    cell = sweep.enter(plan)
    lease = leases.acquire(sweep.catalog, plan.sweep_id, seconds=0)
    execution = sweep.execution(plan, lease, usd=0.0005)  # two samples
    assert (await asyncio.wait_for(run_cell(execution, cell), 20)).done == 2
    assert (await sweep.run(plan, cell)).done == 4
    gap = "epoch(max(due_at)) - epoch(min(due_at))"
    ((apart,),) = sweep.sql(f"select {gap} from attempts where run_id = 'run:1'")
    assert apart == pytest.approx(0.01, abs=1e-6)


async def test_a_later_attempt_is_due_at_no_time_of_the_schedule(sweep: Sweep) -> None:
    """A later attempt starts when the previous attempt has failed, so it is not late."""
    plan = plan_with(2, concurrency=(2,), load={"kind": "poisson", "session_s": 0.01})
    sweep.agent.odd = {"what is 0 + 1": [501]}
    assert (await sweep.run(plan, sweep.enter(plan))).done == 2
    found = sweep.sql("select attempt, due_at is null from attempts order by all")
    assert found == [(1, False), (1, False), (2, True)]


async def test_how_late_the_client_was_is_in_the_store(sweep: Sweep) -> None:
    """There is one sample per second while a cell runs: lateness, CPU, sessions."""
    gate = asyncio.Event()
    plan = plan_with(2, concurrency=(2,))
    sweep.agent.odd = {"what is 0 + 1": [gate], "what is 1 + 1": [gate]}
    asyncio.get_running_loop().call_later(1.5, gate.set)
    await sweep.run(plan, sweep.enter(plan))
    rows = sweep.sql(
        "select name, min(value), max(value) from server_metrics where engine_id = 'client' "
        "group by all order by all"
    )
    names = [name for name, *_ in rows]
    assert names == ["client:cpu_share", "client:loop_lag_seconds", "client:sessions"]
    assert all(low >= 0 for _, low, _ in rows) and rows[2][2] == 2.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_an_endpoint_that_refuses_all_ends_the_run(sweep: Sweep, status: int) -> None:
    """The refused call is not made three times; the message says how to fix it."""

    async def refuse(_: web.Request, body: dict[str, Any]) -> web.Response:
        sweep.agent.asked.append("refused")
        return web.json_response({"error": "no such key"}, status=status)

    sweep.double.reply = refuse
    plan = plan_with(40, concurrency=(2,))
    cell = sweep.enter(plan)
    with pytest.raises(EngineFailed, match=f"the first 8 attempts all failed .http_{status}"):
        await sweep.run(plan, cell)
    assert len(sweep.agent.asked) <= 10
    assert sweep.sql("select distinct status from attempts") == [("infra_error",)]
    assert sweep.sql(CELLS) == [("incomplete", None)]


async def test_one_refusal_does_not_end_a_run_that_is_answered(sweep: Sweep) -> None:
    """The refused call is not repeated, and the others continue."""
    plan = plan_with(6)
    sweep.agent.odd = {"what is 1 + 1": [404]}
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.done, progress.infra) == (5, 1)


async def test_a_rejected_request_is_the_models_own_outcome(sweep: Sweep) -> None:
    """The endpoint answers other requests, so it is no infrastructure error, and the request is
    sent once."""
    plan = plan_with(6, concurrency=(1,))
    sweep.agent.odd = {"what is 5 + 1": [400] * 9, "what is 3 + 1": [422] * 9}
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.done, progress.infra, progress.correct) == (6, 0, 4)
    rejected = sweep.sql(
        "select error_type, attempt, error_message like 'HTTP 4%', score, correct from attempts "
        "where status = 'model_error' order by all"
    )
    # Scored by what it said until then, as `tutti score` does: on a scale with negative scores, 0
    # is not the worst.
    expected = [("http_400", 1, True, 0.0, False), ("http_422", 1, True, 0.0, False)]
    assert rejected == expected
    assert sweep.sql(CELLS) == [("finished", None)]


async def test_a_pause_is_no_part_of_a_cells_time(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause is not part of the cell's window either: its start is stored."""
    monkeypatch.setattr("tutti.tasks.sweeps.run.runner.WATCH_S", 0.02)
    plan = plan_with(6, max_cell_s=2.0)
    cell = sweep.enter(plan)
    set_paused(sweep, cat.now())
    running = asyncio.create_task(sweep.run(plan, cell))
    await asyncio.sleep(2.5)
    assert sweep.agent.asked == []  # a sweep that is paused starts nothing
    set_paused(sweep, None)
    assert (await running).done == 6
    paused = "select count(*) from server_metrics where name = 'client:paused'"
    assert sweep.sql(paused) == [(1,)] and sweep.sql(CELLS) == [("finished", None)]


async def test_who_lost_the_lease_says_nothing_of_the_cell(sweep: Sweep) -> None:
    """A process that was taken for dead and resumes does not change the new holder's status."""
    gate = asyncio.Event()
    plan = plan_with(6)
    cell = sweep.enter(plan)
    sweep.agent.odd = {"what is 0 + 1": [gate]}
    old = leases.acquire(sweep.catalog, plan.sweep_id, seconds=0)
    running = asyncio.create_task(run_cell(sweep.execution(plan, old), cell))
    while not sweep.agent.asked:
        await asyncio.sleep(0.01)
    leases.acquire(sweep.catalog, plan.sweep_id, seconds=60)
    with sweep.catalog.transaction() as connection:
        connection.execute(sa.update(cat.cells).values(status="ended_early", reason="new"))
    gate.set()
    with pytest.raises(LeaseLost):
        await asyncio.wait_for(running, 60)
    assert sweep.sql(CELLS) == [("ended_early", "new")]


async def test_one_failed_look_does_not_end_a_run(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog that is locked for a moment is read again."""
    looks: list[int] = []

    def failing(*_: object) -> bool:
        looks.append(1)
        if len(looks) == 2:
            raise StoreBusy("locked")
        return False

    monkeypatch.setattr("tutti.tasks.sweeps.run.runner.WATCH_S", 0.02)
    monkeypatch.setattr("tutti.tasks.sweeps.run.runner.is_paused", failing)
    gate = asyncio.Event()
    asyncio.get_running_loop().call_later(0.3, gate.set)
    sweep.agent.odd = {"what is 0 + 1": [gate]}
    plan = plan_with(2)
    assert (await sweep.run(plan, sweep.enter(plan))).done == 2 and len(looks) > 2


async def test_no_writer_is_left_where_an_engine_does_not_answer(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remaining writer would keep the store open for the lifetime of the process."""

    def fails() -> None:
        raise EngineFailed("busy")

    monkeypatch.setattr(sweep.engine, "reset", fails)
    before = threading.active_count()
    plan = plan_with(2)
    cell = sweep.enter(plan)
    with pytest.raises(EngineFailed):
        await sweep.run(plan, cell)
    writers = [each for each in threading.enumerate() if each.name == "store writer"]
    assert len(writers) <= 1 and threading.active_count() <= before + 1  # the gateway's
