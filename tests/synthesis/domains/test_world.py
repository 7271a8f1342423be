"""Tests of a world of a synthesized domain: each attempt has its own database, and bad tools end no
attempt."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.benchmarks.conftest import Scripted
from tests.synthesis.domains.lending import CHANGED, TASKS, expected_of
from tests.synthesis.example import EXAMPLE, EXTENDED
from tutti.tasks.agents.tools import ToolUnavailable
from tutti.tasks.benchmarks import BenchmarkError
from tutti.tasks.synthesis.domains import Domain, DomainWorld, ToolSpec, changed_task, world

NASTY = '''
import os
import time

CALLS = 0


def sleep_for_ever(db):
    """Never end."""
    time.sleep(3600)


def spin(db):
    """Never end, and use the processor."""
    while True:
        pass


def leave(db):
    """End the interpreter."""
    os._exit(3)


def wrong(db):
    """Fail."""
    return 1 / 0


def count_calls(db):
    """Write what depends on the calls that this interpreter has had."""
    global CALLS
    CALLS += 1
    db["loans"]["L1"]["days"] = CALLS
    return CALLS
'''
TOOLS = ("sleep_for_ever", "spin", "leave", "wrong", "count_calls")
BAD = EXAMPLE.model_copy(
    update={
        "toolkit": EXAMPLE.toolkit + NASTY,
        "tools": (
            *EXAMPLE.tools,
            *(ToolSpec(name=name, kind="WRITE", about=name, changes=("loans",)) for name in TOOLS),
        ),
    }
)
EXTEND = json.dumps({"loan_id": "L1", "days": 2})


@pytest.fixture
def one_second(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limit a call to one second."""
    limits = world.CALL_LIMITS.__class__(**{**vars(world.CALL_LIMITS), "seconds": 1.0})
    monkeypatch.setattr(world, "CALL_LIMITS", limits)
    yield


def solo(domain: Domain = EXAMPLE, task: Any = EXTENDED) -> DomainWorld:
    """Return a world without a user."""
    return DomainWorld(domain, task, None, solo=True)


async def test_each_attempt_has_a_database_of_its_own() -> None:
    """Of two concurrent attempts at one task, neither sees the other's changes."""
    first, second = solo(), solo()
    try:
        before = first.outcome()
        assert second.outcome() == before
        done = await first.use("extend_loan", EXTEND)
        assert (done.status, json.loads(done.content)["days"]) == ("ok", 16)
        seen = await second.use("get_loan", '{"loan_id": "L1"}')
        assert json.loads(seen.content)["days"] == 14
        assert first.outcome() != before and second.outcome() == before
    finally:
        await first.close()
        await second.close()


async def test_the_golden_calls_lead_to_what_is_expected() -> None:
    """The hash reported by a world equals that of a replay, with and without calls."""
    for task in await expected_of(EXAMPLE, TASKS):
        made = solo(task=task)
        untouched = made.outcome()["db"]
        for call in task.world.actions:
            if call.name in {each["function"]["name"] for each in made.schemas}:
                assert (await made.use(call.name, json.dumps(call.arguments))).status == "ok"
        assert made.outcome()["db"] == task.world.expected
        assert (untouched == task.world.expected) == (task.template == "title")
        await made.close()


async def test_calls_of_one_turn_are_made_in_their_order() -> None:
    """Concurrent calls do not lose each other's changes."""
    made = solo()
    calls = [made.use("extend_loan", json.dumps({"loan_id": "L1", "days": n})) for n in (1, 2, 3)]
    results = await asyncio.gather(*calls)
    assert [json.loads(each.content)["days"] for each in results] == [15, 17, 20]
    await made.close()


async def test_what_the_agent_may_call() -> None:
    """Only the task's tools are allowed; other calls and refusals are errors of the call."""
    made = solo(task=CHANGED)
    assert {each["function"]["name"] for each in made.schemas} == set(CHANGED.world.tools)
    unknown = await made.use("get_loan", '{"loan_id": "L1"}')
    assert unknown.error_type == "malformed_call"
    refused = await made.use("find_member", '{"name": "Nobody"}')
    assert refused.error_type == "tool_error" and "no member is called" in refused.content
    lacking = await made.use("extend_loan", '{"loan_id": "L1"}')
    assert lacking.error_type == "tool_error" and "days" in lacking.content
    await made.close()


@pytest.mark.parametrize("tool", ["sleep_for_ever", "spin", "leave"])
@pytest.mark.usefixtures("one_second")
async def test_a_tool_that_does_not_return(tool: str) -> None:
    """The call fails within its time limit; the database is unchanged and usable."""
    made = solo(BAD)
    assert (await made.use("extend_loan", EXTEND)).status == "ok"
    before = made.outcome()
    async with asyncio.timeout(60):
        stopped = await made.use(tool, "{}")
    assert stopped.error_type == "tool_error" and tool in stopped.content
    assert made.outcome() == before
    seen = await made.use("get_loan", '{"loan_id": "L1"}')
    assert json.loads(seen.content)["days"] == 16
    await made.close()


async def test_a_tool_with_an_error() -> None:
    """The agent gets the error, and nothing changes."""
    made = solo(BAD)
    failed = await made.use("wrong", "{}")
    assert failed.error_type == "tool_error" and "ZeroDivisionError" in failed.content
    await made.close()


async def test_a_state_that_cannot_be_reached_again() -> None:
    """The tool depends on more than the database: the attempt is void and not wrong."""
    made = solo(BAD)
    for _ in range(2):
        await made.use("count_calls", "{}")
    await made.use("extend_loan", EXTEND)
    await made.use("leave", "{}")
    made._changing.pop()
    with pytest.raises(ToolUnavailable, match="do not lead to the same database"):
        await made.use("get_loan", '{"loan_id": "L1"}')
    await made.close()


async def test_a_toolkit_that_cannot_be_loaded() -> None:
    """The attempt is void, not wrong."""
    made = solo(EXAMPLE.model_copy(update={"toolkit": "import nothing_of_that_name"}))
    with pytest.raises(ToolUnavailable, match="nothing_of_that_name"):
        await made.use("get_loan", '{"loan_id": "L1"}')
    await made.close()


async def test_a_dialogue_with_a_customer() -> None:
    """The customer speaks first and ends the dialogue; it gets the scenario and the persona."""
    scenario = EXTENDED.world.scenario.model_copy(update={"persona": "You are in a hurry."})
    model = Scripted("I need 7 more days", "Thanks", "[DONE]")
    made = DomainWorld(EXAMPLE, changed_task(EXTENDED, scenario=scenario), model)
    assert await made.begin() == "I need 7 more days"
    told = model.prompts[0][0]["content"]
    assert "You are in a hurry." in told and "Your name is Ada Long." in told
    assert await made.reply("you have 21 days") == "Thanks" and not made.over()
    assert await made.reply("bye") is None and made.over()
    await made.close()


def test_no_model_for_the_customer() -> None:
    """The error is raised immediately."""
    with pytest.raises(BenchmarkError, match="needs a model"):
        DomainWorld(EXAMPLE, EXTENDED, None)
