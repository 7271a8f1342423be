"""Tests of a model entry's effect in a sweep: on requests, parsed calls, and stored data."""

import json
from typing import Any

import pytest
from aiohttp import web

from tests.serving.engine_double import completion
from tests.sweeps.conftest import SUITE, Agent, Sweep, config_of, make_tasks
from tutti.tasks.serving.registry.models import Model
from tutti.tasks.sweeps.plan.plan import Plan, plan_of

ENTRY: dict[str, Any] = {
    "provider": "openai",
    "endpoint": "http://h/v1",
    "context_tokens": 4096,
    "dialect": "hermes",
    "tools": False,
    "thinking": False,
    "max_tokens_field": "max_completion_tokens",
    "request": {"top_p": 0.5, "temperature": None},
}
CALL = '<tool_call>{"name": "search", "arguments": {"query": "os"}}</tool_call>'


def plan_with(**change: Any) -> Plan:
    """Return a plan of one task for the model of an entry."""
    tasks = make_tasks(1)
    return plan_of(SUITE, config_of(tasks, model=Model(**ENTRY | change)))


async def test_an_entry_decides_how_its_model_is_asked(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry's fields are sent, calls in the reply's text are executed, and reasoning is stored
    and not sent back."""
    bodies: list[dict[str, Any]] = []
    said = [
        completion(CALL, reasoning_content="I should look"),
        completion("so \\boxed{1}", reasoning="now I know"),
    ]

    async def reply(_: Agent, __: web.Request, body: dict[str, Any]) -> web.Response:
        bodies.append(body)
        return web.json_response(said[len(bodies) - 1])

    monkeypatch.setattr(Agent, "__call__", reply)
    plan = plan_with()
    await sweep.run(plan, sweep.enter(plan))
    for body in bodies:
        assert (
            body["max_completion_tokens"] == plan.suite.sampling.max_tokens and body["top_p"] == 0.5
        )
        assert body["reasoning_effort"] == "none"
        assert not {"tools", "max_tokens", "temperature"} & body.keys()
    assert '"name": "search"' in bodies[0]["messages"][0]["content"]
    assert [message["role"] for message in bodies[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert "I should look" not in json.dumps(bodies)
    messages = "select role, reasoning, len(tool_calls) from messages order by position"
    assert sweep.sql(messages) == [
        ("system", None, 0),
        ("user", None, 0),
        ("assistant", "I should look", 1),
        ("tool", None, 0),
        ("assistant", "now I know", 0),
    ]
    assert sweep.sql("select status, correct from attempts") == [("ok", True)]


@pytest.mark.parametrize("change", [{"thinking": True}, {"dialect": "json"}, {"tools": True}])
def test_an_entry_that_asks_otherwise_is_another_cell(change: dict[str, Any]) -> None:
    """Results of the old entry are never reused for the new one."""
    assert plan_with(**change).cells[0].cell_id != plan_with().cells[0].cell_id
    same = plan_with(max_calls=3, prices={"prompt": 2.0})
    assert same.cells[0].cell_id == plan_with().cells[0].cell_id
