"""Tests of strategist and actor in an agent file, and of restrictions on a model's output."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.agents.orchestrator.play import Script, agent_file, expert
from tests.benchmarks.negotiation.play import Says, attempted, file, scenarios
from tutti.tasks.agents.models.client import Client
from tutti.tasks.agents.models.model import (
    CallOrigin,
    ContextExceeded,
    GatewayModel,
    Sampling,
    restricted,
)
from tutti.tasks.agents.orchestrator import StrategistTurns
from tutti.tasks.benchmarks.negotiation.world import NegotiationWorld

ACT: dict[str, Any] = {"description": "Move.", "experts": {"actor": expert("small")}}


def test_files_without_an_actor_keep_their_ids() -> None:
    """The id of a file from before the tool `act` existed is unchanged, so earlier results are
    still matched."""
    assert agent_file().agent_id == "agent:acbebc7de27360f2"
    assert file().agent_id != file(structured=False).agent_id


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ({"act": ACT | {"experts": {"a": expert("x"), "b": expert("y")}}}, "one expert, the actor"),
        ({"act": ACT, "call_expert": ACT}, "both make the turns"),
        ({}, "`act` \\(for worlds"),
    ],
)
def test_a_wrong_file_is_refused(tools: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        agent_file(tools=tools)


async def test_a_restricted_model_asks_for_structured_outputs() -> None:
    """The request has vLLM's field beside the entry's own fields; a model without structured
    outputs is refused."""
    origin, own = CallOrigin("a", "c", "expert"), Sampling(more={"top_p": 0.9})
    async with Client("http://127.0.0.1:1") as client:
        model = restricted(GatewayModel(client, "m", origin, own), ["offer 1", "accept"])
        assert isinstance(model, GatewayModel)
        body = model._body([{"role": "user", "content": "?"}], (), 0)
    assert body["structured_outputs"] == {"choice": ["offer 1", "accept"]} and body["top_p"] == 0.9
    assert model._role == "expert"
    with pytest.raises(TypeError, match="Script cannot be restricted"):
        restricted(Script(), ["a"])


async def test_an_actor_whose_context_is_full_is_no_limit_of_the_strategist() -> None:
    """The attempt fails as infrastructure, with its own error type."""

    def full(prompt: str, choices: Any) -> str:
        raise ContextExceeded("too long")

    done, _ = await attempted(scenarios(1)[0], Says(lambda prompt, choices: "firm"), Says(full))
    assert (done.status, done.error_type) == ("infra_error", "tool_context_exceeded")


def test_a_file_without_the_tool_is_refused() -> None:
    world = NegotiationWorld(scenarios(1)[0])
    with pytest.raises(ValueError, match="has no tool `act`"):
        StrategistTurns(agent_file(), Script(), world, lambda e: Script(), lambda e: Script())
