"""Tests of dialogues: the expert writes the turn with the environment's tools, and no text is
added."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.agents.orchestrator.play import NOW, Script, agent_file, call, calls, expert, experts_of
from tutti.tasks.agents.loop import Agent, AttemptLimits, Trajectory, run_attempt
from tutti.tasks.agents.models.model import ContextExceeded
from tutti.tasks.agents.orchestrator import AgentFile, ExpertTurns
from tutti.tasks.agents.tools.tool import Environment, ToolResult

PROMPT = [{"role": "system", "content": "The policy."}, {"role": "user", "content": "Cancel it."}]
LOOKUP = {"type": "function", "function": {"name": "lookup", "parameters": {}}}


class World:
    """Environment with one tool."""

    schemas: Sequence[dict[str, Any]] = [LOOKUP]

    async def use(self, name: str, arguments: str) -> ToolResult:
        return ToolResult(f"{name}: found", "ok", NOW, NOW)


def file_with(*models: str) -> AgentFile:
    experts = {f"expert-{n}": expert(model) for n, model in enumerate(models, 1)}
    return agent_file(tools={"call_expert": {"description": "Hand over.", "experts": experts}})


def play(
    orchestrator: Script, models: dict[str, Script], file: AgentFile | None = None, **given: Any
) -> Trajectory:
    file = file or file_with(*models or ("big",))
    turns = ExpertTurns(file, orchestrator, World(), experts_of(models), **given)
    agent = Agent(read_answer=lambda text: text, dialect=given.get("dialect", "openai"))
    limits = AttemptLimits(turns=5)
    return asyncio.run(run_attempt(PROMPT, turns, Environment(turns), limits, agent))


def test_the_expert_writes_the_turn() -> None:
    """The expert's calls are executed as the agent's own, and the orchestrator continues
    afterwards."""
    orchestrator = Script(
        call("call_expert", expert="expert-1"),
        {"role": "assistant", "content": "Done."},
        cost_usd=0.1,
    )
    models = {"big": Script(calls(("lookup", '{"id": 1}')), cost_usd=2)}
    done = play(orchestrator, models)
    assert [run[1] for run in done.tool_runs] == ["call_expert", "lookup"]
    assert done.tool_runs[0][2] == '{"expert": "expert-1"}' and done.tool_runs[0][3].cost_usd == 2
    assert done.messages[2]["tool_calls"][0]["function"]["name"] == "lookup"
    assert done.messages[3]["content"] == "lookup: found" and done.answer == "Done."
    assert done.cost_usd == pytest.approx(2.2) and done.held_s == 1.5


def test_the_expert_gets_the_conversation_and_the_tools_as_they_are() -> None:
    """The reference gave its open experts no tools and GPT-5 an additional hidden sentence."""
    orchestrator = Script(call("call_expert", expert="expert-1"))
    models = {"big": Script("I cancel it.")}
    done = play(orchestrator, models)
    assert models["big"].seen == [PROMPT] and models["big"].tools == [[LOOKUP]]
    names = [tool["function"]["name"] for tool in orchestrator.tools[0]]
    assert names == ["lookup", "call_expert"]
    assert done.answer == "I cancel it." and done.messages[:2] == PROMPT


def test_turns_of_its_own_are_the_orchestrators() -> None:
    orchestrator = Script(calls(("lookup", "{}")), "It is done.")
    done = play(orchestrator, {})
    assert done.answer == "It is done." and [run[1] for run in done.tool_runs] == ["lookup"]


def test_other_calls_beside_it_are_not_carried_out() -> None:
    """The expert's turn replaces the whole message."""
    made = calls(("lookup", "{}"), ("call_expert", '{"expert": "expert-1"}'))
    done = play(Script(made), {"big": Script("I do it.")})
    assert [run[1] for run in done.tool_runs] == ["call_expert"] and done.answer == "I do it."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"expert": "expert-9"}', "no expert 'expert-9'; there are: expert-1"),
        ("{}", "needs the argument 'expert'"),
        ("nonsense", "not JSON"),
    ],
)
def test_a_call_that_names_nobody_is_answered_with_why(arguments: str, said: str) -> None:
    orchestrator = Script(calls(("call_expert", arguments)), "I do it myself.")
    done = play(orchestrator, {})
    assert said in str(orchestrator.seen[1][-1]["content"])
    assert done.tool_runs[0][3].error_type == "malformed_call" and done.status == "ok"


def test_an_expert_without_room_is_told() -> None:
    orchestrator = Script(call("call_expert", expert="expert-1"), "I do it myself.")
    done = play(orchestrator, {"big": Script(ContextExceeded("8192 tokens"))})
    assert "the expert cannot read so much" in str(orchestrator.seen[1][-1]["content"])
    assert done.status == "ok"


def test_calls_in_text_are_read_in_the_dialect_of_who_wrote_them() -> None:
    """The orchestrator writes Hermes, the expert writes JSON."""
    written = '<tool_call>{"name": "call_expert", "arguments": {"expert": "expert-1"}}</tool_call>'
    models = {"big": Script('{"name": "lookup", "arguments": {"id": 2}}')}
    done = play(
        Script(written, "Done."), models, dialect="hermes", dialect_of=lambda expert: "json"
    )
    assert [run[1] for run in done.tool_runs] == ["call_expert", "lookup"]
    assert done.answer == "Done."


def test_a_file_without_the_tool_is_refused() -> None:
    tools = agent_file().tools.model_copy(update={"call_expert": None})
    without = agent_file().model_copy(update={"tools": tools})
    with pytest.raises(ValueError, match="no tool `call_expert`"):
        ExpertTurns(without, Script(), World(), experts_of({}))
