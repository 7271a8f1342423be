"""Tests of tau2's mock domain with a customer: a correct conversation scores 1.0, and one without
calls does not."""

from pathlib import Path

from tests.benchmarks.conftest import Scripted, load
from tutti.tasks.benchmarks import benchmark_named
from tutti.tasks.benchmarks.tau2.dialogue import domain_at
from tutti.tasks.benchmarks.world import World
from tutti.tasks.scoring import SCORERS, ScoringResources, Submission


def world_of(data: Path, task: str, model: Scripted) -> tuple[World, dict[str, object]]:
    """Return the world of one mock task and its target."""
    benchmark = benchmark_named("tau2-mock")
    (item,) = (item for item in load("tau2-mock", data / "tau2") if item.key == task)
    assert benchmark.world is not None and benchmark.needs_user
    return benchmark.world(item, model), dict(item.target)


async def scored(world: World, target: dict[str, object]) -> float:
    """Return the score of the world's outcome."""
    attempted = Submission(None, state=world.outcome())
    return (await SCORERS["state"].score(target, attempted, ScoringResources())).value


async def test_a_conversation_from_end_to_end(data: Path) -> None:
    """The customer asks, the agent's call changes this attempt's databases, and the customer ends
    the dialogue with the gold outcome. Another attempt starts from the initial state."""
    model = Scripted("please make a task for user_1: Important Meeting", "[DONE]")
    world, target = world_of(data, "create_task_1", model)
    assert await world.begin() == "please make a task for user_1: Important Meeting"
    assert await scored(world, target) == 0.0
    refused = await world.use("create_task", '{"user_id": "nobody", "title": "x"}')
    assert refused.error_type == "tool_error" and "no user 'nobody'" in refused.content
    made = await world.use("create_task", '{"user_id": "user_1", "title": "Important Meeting"}')
    assert made.status == "ok"
    assert not world.over()
    assert await scored(world, target) == 0.0, "the customer has not ended it: as at the turn limit"
    assert await world.reply("it is made") is None and world.over()
    assert await scored(world, target) == 1.0
    other, _ = world_of(data, "create_task_1", Scripted())
    assert await scored(other, target) == 0.0
    assert "Important Meeting" not in str(domain_at(data / "tau2" / "mock").db)
    assert (await world.use("transfer", "{}")).error_type == "malformed_call"
    await world.close()


async def test_the_customer_s_own_tools(data: Path) -> None:
    """The customer acts on its own device with tools that the agent does not have."""
    call = {"name": "dismiss_notification", "arguments": {"notification_id": "notif_1"}}
    model = Scripted("hello", call, "I have read it", "[DONE]")
    world, _ = world_of(data, "update_task_with_user_tools", model)
    await world.begin()
    assert "dismiss_notification" not in str(world.schemas)
    assert await world.reply("read your notification") == "I have read it"
    answer = model.prompts[-1][-1]
    assert answer["role"] == "tool" and '"status": "read"' in answer["content"]


async def test_a_task_that_begins_in_the_middle(data: Path) -> None:
    """If the earlier dialogue ends with the customer, the agent goes first."""
    name = "update_task_with_message_history"
    world, _ = world_of(data, name, Scripted("hello"))
    (item,) = (one for one in load("tau2-mock", data / "tau2") if one.key == name)
    waits = item.given[-1]["role"] != "assistant"
    assert (await world.begin() is None) == waits
