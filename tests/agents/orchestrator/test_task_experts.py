"""Tests of a task's own experts: only these are offered, and their calls cost the task's prices."""

import pytest

from tests.agents.orchestrator.play import Script, agent_file, call, expert, experts_of
from tutti.tasks.agents.loop import AttemptLimits, run_attempt
from tutti.tasks.agents.orchestrator import (
    AgentFile,
    AgentFileError,
    ExpertTurns,
    at_task_prices,
    offered_by_task,
)
from tutti.tasks.agents.tools.tool import DescribedTools, Environment

OFFER = {"expert-2": {"prompt": 100.0, "completion": 1000.0}}


def two_experts() -> AgentFile:
    experts = {"expert-1": expert("big", 5), "expert-2": expert("small")}
    return agent_file(tools={"call_expert": {"description": "Hand over.", "experts": experts}})


def test_only_the_tasks_experts_are_shown_at_its_prices() -> None:
    shown = offered_by_task(two_experts(), OFFER)
    assert shown.tools.call_expert is not None
    (only,) = shown.tools.call_expert.experts.items()
    assert only[0] == "expert-2" and only[1].model == "small"
    assert (only[1].prices.prompt, only[1].prices.completion) == (100.0, 1000.0)
    assert offered_by_task(two_experts(), {}) == two_experts()


def test_a_tool_that_the_task_does_not_name_keeps_its_experts() -> None:
    file = agent_file()
    shown = offered_by_task(file, {"expert-1": {"prompt": 1.0, "completion": 2.0}})
    assert shown.tools.search == file.tools.search and shown.tools.answer == file.tools.answer


def test_an_expert_that_the_file_does_not_have_is_said() -> None:
    with pytest.raises(AgentFileError, match="the task offers the expert 'expert-9'; the agent's"):
        offered_by_task(two_experts(), {"expert-9": {"prompt": 1.0, "completion": 1.0}})


async def test_a_call_costs_the_tasks_price() -> None:
    """The reply has 10 prompt and 3 completion tokens. The gateway's price is used only if the task
    offers no price, even where the gateway's price is unknown."""
    boss = Script(call("call_expert", expert="expert-2"))
    models = {"small": Script("I do it.", cost_usd=7.0)}
    experts = at_task_prices(experts_of(models), OFFER)
    turns = ExpertTurns(offered_by_task(two_experts(), OFFER), boss, DescribedTools([]), experts)
    prompt = [{"role": "user", "content": "Do it."}]
    done = await run_attempt(prompt, turns, Environment(turns), AttemptLimits())
    assert done.cost_usd == pytest.approx((10 * 100.0 + 3 * 1000.0) / 1e6)
    assert done.tool_runs[0][1] == "call_expert"
    models["small"].replies.append("Again.")
    tool = two_experts().tools.call_expert
    assert tool is not None
    plain = at_task_prices(experts_of(models), {})(tool.experts["expert-2"])
    assert (await plain.complete(prompt, (), 1)).cost_usd == 7.0
