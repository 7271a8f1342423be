"""Tests of scoring attempts at a synthesized domain again: their end states are computed from their
stored calls."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.serving.engine_double import completion
from tests.sweeps.conftest import Agent, Sweep
from tests.sweeps.plan.test_benchmarks import plan_of
from tests.sweeps.plan.test_domain_benchmarks import call, suite_of
from tests.synthesis.domains.lending import expected_of, lending_folder
from tests.synthesis.example import EXAMPLE, EXTENDED
from tutti.storage import Catalog, commit
from tutti.tasks.sweeps.analysis.rescore import RescoreResult, rescore
from tutti.tasks.sweeps.plan.plan import Plan
from tutti.tasks.synthesis.domains import DomainTask, StoredCall, end_state, stored_calls


async def reply(_: Any, __: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Reply to Ada with a call of no tool, one without JSON, a refused one and two at once; to Bo
    with text."""
    said = body["messages"]
    asked = next(each["content"] for each in said if each["role"] == "user")
    turn = sum(each["role"] == "assistant" for each in said)
    if "7 more days" not in asked:
        return web.json_response(completion("which book do you mean?"))
    if turn == 0:
        broken = {"name": "extend_loan", "arguments": '{"loan_id": "L1", "days"'}
        calls = [call("fly")["choices"][0]["message"]["tool_calls"][0]]
        calls += [{"id": "d", "type": "function", "function": broken}]
        return web.json_response(completion("", tool_calls=calls))
    if turn == 1:
        return web.json_response(call("extend_loan", loan_id="L9", days=1))
    if turn == 2:
        both = [call("extend_loan", loan_id="L1", days=days) for days in (4, 3)]
        calls = [each["choices"][0]["message"]["tool_calls"][0] for each in both]
        return web.json_response(completion("", tool_calls=calls))
    return web.json_response(completion("you have 10 days"))


async def measured(sweep: Sweep, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Run two attempts, one of them correct, and return the plan."""
    await lending_folder(folder)
    monkeypatch.setattr(Agent, "__call__", reply)
    plan = plan_of(suite_of(folder, solo=True), sweep.catalog)
    progress = await sweep.run(plan, sweep.enter(plan))
    assert (progress.counted, progress.correct) == (2, 1)
    return plan


def reasons(found: RescoreResult) -> set[str]:
    return set(found.failed.values())


async def test_the_calls_carried_out_again_give_the_same_scores(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await measured(sweep, tmp_path / "desk", monkeypatch)
    found = await rescore(plan.sweep_id, sweep.catalog)
    assert (found.scored, found.flipped, found.failed) == (2, [], {})
    rows = sweep.sql("select detail, count(*) from scores group by detail order by detail")
    assert [count for _, count in rows] == [2, 2], "the same detail, before and now"


async def test_what_is_missing_is_named(
    sweep: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The domain has changed or is missing: no attempt is scored as wrong for this."""
    folder = tmp_path / "desk"
    plan = await measured(sweep, folder, monkeypatch)
    code = folder / "toolkit.py"
    code.write_text(code.read_text().replace("> 30", "> 31"))
    (why,) = reasons(await rescore(plan.sweep_id, sweep.catalog))
    assert "is no longer in the folder or task set that was measured; put it back" in why
    shutil.rmtree(folder)
    found = await rescore(plan.sweep_id, sweep.catalog)
    assert reasons(found) == {why} and found.scored == 0


CALL = StoredCall("extend_loan", '{"loan_id": "L1", "days": 7}', "")


async def task_and_result() -> tuple[DomainTask, str]:
    (task,) = await expected_of(EXAMPLE, (EXTENDED,))
    loan = {**EXAMPLE.records["loans"]["L1"], "days": 21}
    return task, json.dumps(loan)


@pytest.mark.parametrize(
    ("result", "why"),
    [('{"days": 99}', "call 1, extend_loan, returned '{\"days\": 99}' then,"), (None, "tool_runs")],
)
async def test_a_state_that_is_not_the_attempts_is_none(result: str | None, why: str) -> None:
    """The cases are a result that differs from the recorded one, and calls without any recorded
    result."""
    task, _ = await task_and_result()
    calls = None if result is None else [StoredCall(CALL.name, CALL.arguments, result)]
    found = await end_state(EXAMPLE, task, calls)
    assert found.db == "" and why in found.fault


async def test_the_stored_calls_lead_to_the_golden_state() -> None:
    task, result = await task_and_result()
    found = await end_state(EXAMPLE, task, [StoredCall(CALL.name, CALL.arguments, result)])
    assert (found.db, found.fault) == (task.world.expected, "")


def test_calls_without_results_are_not_taken_for_none(catalog: Catalog) -> None:
    """For a harness, messages have calls but `tool_runs` has no rows."""
    said = {"role": "assistant", "call_id": "c", "position": 1}
    made = [{"id": "x", "name": "extend_loan", "arguments": "{}"}]
    rows = [said | {"attempt_id": "a", "tool_calls": made}, said | {"attempt_id": "b"}]
    run = {"attempt_id": "c", "step": 1, "name": "fly", "arguments": "{}", "result": "no"}
    commit(catalog, {"messages": rows, "tool_runs": [run | {"error_type": "malformed_call"}]})
    found = stored_calls(["a", "b", "c"], catalog.home)
    assert found == {"a": None, "b": [], "c": [StoredCall("fly", "{}", "no", "malformed_call")]}
