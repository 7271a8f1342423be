"""Tests of a simulated user: it sees the conversation from its side, has its own tools, and ends
the conversation."""

from typing import Any

import pytest

from tests.benchmarks.conftest import Scripted
from tutti.tasks.agents.tools.tool import ToolUnavailable
from tutti.tasks.benchmarks import BenchmarkError
from tutti.tasks.benchmarks.benchmark import tool
from tutti.tasks.benchmarks.user import BEGIN, MAX_CALLS, SimulatedUser


async def test_both_sides_in_turn() -> None:
    """The agent's messages have the role "user" for the simulated user, the instructions come
    first, and DONE ends the dialogue."""
    model = Scripted("hello", "a table", "thanks. [DONE]")
    user = SimulatedUser(model, "be brief")
    assert await user.say(None) == "hello" and not user.done
    assert await user.say("what do you want?") == "a table"
    assert await user.say("done") is None and user.done
    assert [(one["role"], one["content"]) for one in model.prompts[-1]] == [
        ("system", "be brief"),
        ("user", BEGIN),
        ("assistant", "hello"),
        ("user", "what do you want?"),
        ("assistant", "a table"),
        ("user", "done"),
    ]


async def test_a_dialogue_that_was_there_before() -> None:
    """The earlier dialogue is shown from the user's side, without the agent's calls."""
    past: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [{}]},
        {"role": "tool", "content": "x"},
        {"role": "assistant", "content": "yes?"},
    ]
    model = Scripted("help")
    assert await SimulatedUser(model, "i", past).say(None) == "help"
    assert [one["role"] for one in model.prompts[0]] == ["system", "assistant", "user"]


async def test_its_tools_are_its_own() -> None:
    """The user's calls are executed and their results go to it, never to the agent; a user that
    only calls tools and never writes is ended after a number of turns."""
    done: list[tuple[str, dict[str, Any]]] = []

    async def act(name: str, arguments: dict[str, Any]) -> str:
        done.append((name, arguments))
        return "42 %"

    schemas = [tool("battery", "", {"type": "object", "properties": {}})]
    model = Scripted({"name": "battery", "arguments": {}}, "it says 42 %")
    user = SimulatedUser(model, "i", (), schemas, act)
    assert await user.say("how full is it?") == "it says 42 %"
    assert done == [("battery", {})]
    assert model.prompts[-1][-1] == {"role": "tool", "tool_call_id": "call-1", "content": "42 %"}
    mute = Scripted(*[{"name": "battery", "arguments": {}}] * MAX_CALLS)
    assert await SimulatedUser(mute, "i", (), schemas, act).say("?") is None


@pytest.mark.parametrize("words", ["", "[DONE]"])
async def test_a_user_that_does_not_begin(words: str) -> None:
    """A conversation that never started is an infra error, not the agent's wrong answer."""
    with pytest.raises(ToolUnavailable, match="did not begin"):
        await SimulatedUser(Scripted(words), "i").say(None)


async def test_a_call_of_a_tool_that_it_was_not_given() -> None:
    """The user gets an error that the tool does not exist, and continues."""
    model = Scripted({"name": "battery", "arguments": {}}, "hello")
    assert await SimulatedUser(model, "i").say(None) == "hello"
    assert "there is no tool" in model.prompts[-1][-1]["content"]


def test_without_a_model() -> None:
    """The error that a model is missing is raised immediately."""
    with pytest.raises(BenchmarkError, match="needs a model"):
        SimulatedUser(None, "i")
