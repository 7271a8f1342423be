"""Tests of running cells: every sample counts once, through crashes, dead engines and bad
responses."""

import asyncio
import json
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web

from tests.serving.engine_double import USAGE, completion
from tests.sweeps.conftest import SUITE, Sweep, plan_of
from tutti import storage
from tutti.storage import artifact_id
from tutti.storage import catalog as cat
from tutti.storage.catalog import leasing as leases
from tutti.tasks.serving import EngineFailed

COUNTED = "status in ('ok', 'limit', 'model_error')"


def assert_counted_once(sweep: Sweep, samples: int) -> None:
    """Check that each sample has exactly one counted attempt, in the tables and in the catalog."""
    rows = sweep.sql(f"select attempt_id, sample_id, status, {COUNTED} from attempts")
    assert len({attempt_id for attempt_id, *_ in rows}) == len(rows)
    counted = [sample_id for _, sample_id, _, counts in rows if counts]
    assert len(set(counted)) == len(counted) == samples
    states = sweep.catalog.rows(sa.select(cat.attempt_states))
    assert {row["state"] for row in states} == {"done"}
    recorded = {attempt_id: status for attempt_id, _, status, _ in rows}
    assert recorded == {row["attempt_id"]: row["status"] for row in states}


async def test_every_sample_gets_one_attempt_with_its_calls(sweep: Sweep) -> None:
    """Rows of all tables agree with each other and with the engine's counts."""
    plan = plan_of(SUITE.with_fields({"trials": 2}))
    cell = sweep.enter(plan)
    progress = await sweep.run(plan, cell)
    assert (progress.done, progress.total, progress.correct, progress.infra) == (12, 12, 12, 0)
    assert_counted_once(sweep, 12)
    unpaired = "select 1 from calls c full join attempts a using (attempt_id) "
    assert sweep.sql(unpaired + "where c.call_id is null or a.sample_id is null") == []
    sums = "select sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens) from "
    expected = [(12 * 120, 12 * 96, 12 * 30)]  # the double's USAGE
    assert sweep.sql(sums + "attempts") == sweep.sql(sums + "calls") == expected
    assert sweep.sql("select count(*) from scores where correct and value = 1") == [(12,)]
    linked = "select count(*) from messages m join calls c using (call_id, attempt_id)"
    assert sweep.sql(linked) == [(12,)]
    assert sweep.sql("select status, concurrency, samples from cells") == [("finished", 2, 12)]


async def test_tokens_that_no_answer_reported_are_unknown(sweep: Sweep) -> None:
    """The tokens are null and not 0, as in `calls`."""

    async def silent(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response(completion("7", usage={}))

    sweep.double.reply = silent
    plan = plan_of(count=2)
    await sweep.run(plan, sweep.enter(plan))
    sql = "select distinct prompt_tokens, cached_tokens, completion_tokens from "
    assert sweep.sql(sql + "attempts") == sweep.sql(sql + "calls") == [(None, None, None)]


async def test_trials_of_a_task_are_drawn_with_different_seeds(sweep: Sweep) -> None:
    """The same prompt with the same seed would be the same answer counted twice."""
    plan = plan_of(SUITE.with_fields({"trials": 3, "temperature": 1.0}), count=1)
    await sweep.run(plan, sweep.enter(plan))
    assert len(set(sweep.agent.seeds)) == len(sweep.agent.seeds) == 3


async def test_tasks_are_drawn_with_different_seeds_and_the_same_under_each_policy(
    sweep: Sweep,
) -> None:
    """One seed for all tasks would correlate their samples; policies are compared on the same
    seeds."""
    for policy in ("passthrough", "cap"):
        plan = plan_of(SUITE.with_fields({"policies": (policy,)}), count=5)
        await sweep.run(plan, sweep.enter(plan))
    first, second = sweep.agent.seeds[:5], sweep.agent.seeds[5:]
    assert len(set(first)) == 5 and sorted(first) == sorted(second)


async def test_an_attempt_costs_what_its_calls_cost(sweep: Sweep) -> None:
    """`attempts.cost_usd` is the value that window_summary sums."""
    plan = plan_of(count=2)
    await sweep.run(plan, sweep.enter(plan))
    paid = sweep.sql("select sum(cost_usd) from calls")
    assert paid[0][0] > 0
    assert sweep.sql("select sum(cost_usd) from attempts") == paid


async def test_wrong_answers_count_as_wrong(sweep: Sweep) -> None:
    """The cases are a wrong boxed answer, no box, and a prompt too long for the model."""
    plan = plan_of(count=4)
    sweep.agent.odd = {"what is 0 + 1": ["\\boxed{7}"], "what is 1 + 1": ["I give up"]}
    sweep.agent.odd["what is 2 + 1"] = [
        {"choices": [{"message": {"role": "assistant", "content": None}}]}
    ]
    await sweep.run(plan, sweep.enter(plan))
    rows = sweep.sql("select status, correct, count(*) from attempts group by all order by all")
    assert rows == [("model_error", False, 2), ("ok", False, 1), ("ok", True, 1)]


async def test_infra_errors_are_tried_again_and_never_counted_wrong(sweep: Sweep) -> None:
    """A 501 voids the attempt; its rows stay, without a score, and a new attempt counts."""
    plan = plan_of(count=3)
    sweep.agent.odd = {"what is 1 + 1": [501, 501]}
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.infra, progress.done, progress.correct) == (2, 3, 3)
    assert_counted_once(sweep, 3)
    sql = "select attempt, status, correct, score from attempts where task_id = "
    task_id = next(s.task.task_id for s in plan.cells[0].samples if s.task.target["answer"] == "2")
    assert sweep.sql(sql + f"'{task_id}' order by attempt") == [
        (1, "infra_error", None, None),
        (2, "infra_error", None, None),
        (3, "ok", True, 1.0),
    ]
    summary = f"window_summary('{plan.cells[0].cell_id}', 0, 60)"
    assert sweep.sql(f"select accuracy, n_infra from {summary}") == [(1.0, 2)]


async def test_a_sample_that_only_fails_stays_missing(sweep: Sweep) -> None:
    """After the last attempt the cell is incomplete; the next run tries again."""
    plan = plan_of(count=2)
    cell = sweep.enter(plan)
    sweep.agent.odd = {"what is 1 + 1": [501] * 3}
    progress = await sweep.run(plan, cell)
    assert (progress.done, progress.infra) == (1, 3)
    assert sweep.sql("select status from cells") == [("incomplete",)]
    await sweep.run(plan, cell)
    assert sweep.sql("select status from cells") == [("finished",)]
    assert_counted_once(sweep, 2)


@pytest.mark.parametrize(
    "answer", [{}, {"choices": []}, {"choices": [{"message": None}]}], ids=["no", "none", "null"]
)
async def test_an_answer_without_a_message_voids_the_attempt_not_the_sweep(
    sweep: Sweep, answer: dict[str, Any]
) -> None:
    """A failed attempt is stored: status 200 with an invalid body is the server's fault."""
    plan = plan_of(count=2)
    sweep.agent.odd = {"what is 1 + 1": [answer]}
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.done, progress.infra) == (2, 1)


@pytest.mark.parametrize(("tool", "argument"), [("python", "code"), ("search", "query")])
async def test_a_tool_call_with_half_a_character_does_not_stop_the_sweep(
    sweep: Sweep, tool: str, argument: str
) -> None:
    """A model can write any JSON escape, including a lone surrogate: UTF-8 and Parquet cannot
    encode it, but the attempt ends like any other and is committed."""
    function = {"name": tool, "arguments": f'{{"{argument}": "print(1) # \\ud83d"}}'}
    call = {"id": "t", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    sweep.agent.odd = {"what is 1 + 1": [{"choices": [{"message": message}], "usage": USAGE}]}
    plan = plan_of(count=2)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.done, progress.infra) == (2, 0)
    assert_counted_once(sweep, 2)
    assert sweep.sql("select count(*) from tool_runs") == [(1,)]


async def test_python_may_keep_an_attempts_variables(sweep: Sweep) -> None:
    """With `python: session`, variables persist between calls and never into another attempt; it is
    another cell."""

    def cell_of(code: str) -> dict[str, Any]:
        function = {"name": "python", "arguments": json.dumps({"code": code})}
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": "t", "type": "function", "function": function}]
        return {"choices": [{"message": message}], "usage": USAGE}

    suite = SUITE.with_fields({"python": "session"})
    plan = plan_of(suite, count=2)
    for question in ("what is 0 + 1", "what is 1 + 1"):
        sweep.agent.odd[question] = [cell_of("print('x' in dir())\nx = 41"), cell_of("x + 1")]
    await sweep.run(plan, sweep.enter(plan))
    results = sweep.sql("select step, result from tool_runs order by step, started_at")
    assert results == [(1, "False"), (1, "False"), (2, "42"), (2, "42")]
    assert plan.cells[0].cell_id != plan_of(SUITE, 2).cells[0].cell_id


async def test_a_second_run_does_nothing(sweep: Sweep) -> None:
    """There is no call, no attempt, and no change of the cell, not even of its end time."""
    plan = plan_of()
    cell = sweep.enter(plan)
    await sweep.run(plan, cell)
    asked, before = len(sweep.agent.asked), sweep.sql("select * from attempts order by all")
    cells = sweep.sql("select * from cells")
    progress = await sweep.run(plan, cell)
    assert (progress.done, len(sweep.agent.asked)) == (6, asked)
    assert sweep.sql("select * from attempts order by all") == before
    assert sweep.sql("select * from cells") == cells


async def test_what_a_crash_left_running_is_recorded_as_lost(sweep: Sweep) -> None:
    """The lost attempt is cancelled with the reason worker lost; a second one counts."""
    plan = plan_of(count=2)
    cell = sweep.enter(plan)
    sample = cell.samples[0]
    row: dict[str, Any] = {"attempt_id": artifact_id("attempt", [sample.sample_id, 1])}
    row |= {"cell_id": cell.cell_id, "sample_id": sample.sample_id, "attempt": 1, "trial": 0}
    row |= {"task_id": sample.task.task_id, "run_id": "run:crashed", "state": "running"}
    sweep.catalog.upsert(cat.attempt_states, row | {"started_at": cat.now()})
    progress = await sweep.run(plan, cell)
    assert (progress.done, progress.correct) == (2, 2)
    assert_counted_once(sweep, 2)
    kinds = "select error_type, error_message, count(*) from attempts group by all order by all"
    assert sweep.sql(kinds) == [
        ("worker_lost", "the process that ran it ended", 1), (None, None, 2)
    ]  # fmt: skip
    columns = "attempt, run_id, status, stop_reason, correct"
    sql = f"select {columns} from attempts where sample_id = '{sample.sample_id}' order by attempt"
    assert sweep.sql(sql) == [
        (1, "run:crashed", "cancelled", "worker_lost", None),
        (2, "run:1", "ok", "answered", True),
    ]


async def test_a_dead_engine_stops_the_cell_and_the_next_run_completes_it(sweep: Sweep) -> None:
    """Finished attempts are kept; those in flight are marked as lost and repeated."""
    plan = plan_of()
    cell = sweep.enter(plan)
    stuck = asyncio.Event()
    for sample in cell.samples[3:]:
        sweep.agent.odd[sample.task.messages[1]["content"]] = [stuck]
    running = asyncio.create_task(sweep.run(plan, cell))
    while len(sweep.agent.asked) < 5:
        await asyncio.sleep(0.01)
    sweep.engine.died.set()
    with pytest.raises(EngineFailed, match="died while serving"):
        await running
    assert sweep.sql("select count(*) from attempts where status = 'ok'") == [(3,)]
    stuck.set()
    sweep.engine.died.clear()
    await sweep.run(plan, cell)
    assert_counted_once(sweep, 6)
    assert sweep.sql("select stop_reason, count(*) from attempts group by all order by all") == [
        ("answered", 6),
        ("worker_lost", 2),
    ]


async def test_a_cell_that_was_stopped_is_not_shown_as_running(sweep: Sweep) -> None:
    """The catalog has the true state: no process runs it any more."""
    plan = plan_of(count=1)
    cell = sweep.enter(plan)
    sweep.engine.died.set()
    sweep.agent.odd = {"what is 0 + 1": [asyncio.Event()]}
    with pytest.raises(EngineFailed):
        await sweep.run(plan, cell)
    assert sweep.sql("select status from cells") == [("incomplete",)]


async def test_a_full_store_stops_the_run_and_the_next_one_completes_it(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's own error is raised, and nothing is counted twice or omitted afterwards."""
    from tutti.storage.write import buffered
    from tutti.tasks.sweeps.run import runner

    def commit(*_: Any, **__: Any) -> None:
        raise storage.StoreFull("no room")

    monkeypatch.setattr(runner, "STORE_GRACE_S", 0.2)
    plan = plan_of()
    cell = sweep.enter(plan)
    with monkeypatch.context() as full:
        full.setattr(buffered, "commit_tables", commit)
        with pytest.raises(storage.StoreFull):
            await sweep.run(plan, cell)
    await sweep.run(plan, cell)
    assert_counted_once(sweep, 6)


async def test_a_sweep_taken_over_commits_nothing_more_here(sweep: Sweep) -> None:
    """The late attempts of a worker that was taken for dead are refused, and the new holder's
    count."""
    plan = plan_of()
    cell = sweep.enter(plan)
    lease = leases.acquire(sweep.catalog, plan.sweep_id, seconds=0)
    newer = leases.acquire(sweep.catalog, plan.sweep_id, seconds=0)
    with pytest.raises(storage.LeaseLost, match="took it over"):
        await sweep.run(plan, cell, lease)
    assert sweep.sql("select count(*) from attempts") == [(0,)]
    await sweep.run(plan, cell, newer)
    assert_counted_once(sweep, 6)
