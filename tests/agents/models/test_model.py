"""Tests of the request that a model call sends and of the stored response."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble, completion
from tutti.tasks.agents.loop import Agent, agent_of
from tutti.tasks.agents.models.client import Client, Retry
from tutti.tasks.agents.models.model import (
    CallOrigin,
    ContextExceeded,
    GatewayModel,
    ModelCallFailed,
    Sampling,
    sampling_of,
)
from tutti.tasks.agents.tools.tool import TOOL_SCHEMAS
from tutti.tasks.serving.registry.models import Model

ASKED = [{"role": "user", "content": "hello"}]
QWEN: dict[str, Any] = {
    "provider": "vllm",
    "endpoint": "http://h/v1",
    "dialect": "hermes",
    "context_tokens": 1024,
    "thinking": False,
    "request": {"top_p": 0.9, "seed": None},
}


class Far:
    """Endpoint with scripted responses that records the calls to it."""

    def __init__(self, double: EngineDouble, client: Client) -> None:
        self.double, self.client = double, client

    def says(self, body: Any, status: int = 200) -> None:
        """Set the response for later calls."""

        async def reply(_: web.Request, __: Mapping[str, Any]) -> web.Response:
            return web.json_response(body, status=status)

        self.double.reply = reply

    def model(self, sampling: Sampling | None = None) -> GatewayModel:
        """Return a model caller that does not retry."""
        chosen = sampling or Sampling()
        return GatewayModel(self.client, "m", CallOrigin("p", "cell:1"), chosen, retry=Retry({}))

    @property
    def asked(self) -> dict[str, Any]:
        """Return the body of the last request."""
        return self.double.requests[-1][1]


@pytest.fixture
async def far() -> AsyncIterator[Far]:
    """Run the endpoint."""
    double = EngineDouble()
    async with TestServer(double.application()) as server:
        async with Client(str(server.make_url("")).rstrip("/")) as client:
            yield Far(double, client)


async def test_what_the_registry_says_is_in_the_request(far: Far) -> None:
    """The request has the registry entry's thinking switch and extra fields, and none of the fields
    that the entry removes."""
    model = Model(**QWEN)
    await far.model(sampling_of(model, 0.7, 64, 5)).complete(ASKED, TOOL_SCHEMAS, 1)
    assert far.asked == {
        "model": "m",
        "messages": ASKED,
        "temperature": 0.7,
        "max_tokens": 64,
        "top_p": 0.9,
        "chat_template_kwargs": {"enable_thinking": False},
        "tools": TOOL_SCHEMAS,
    }


def test_what_the_registry_says_is_in_the_agent() -> None:
    """The agent takes the dialect and the room for the reply from the registry; a smaller limit of
    the agent is kept."""
    model = Model(**QWEN)
    agent = agent_of(model, Agent(calls_answer=True), max_tokens=100)
    assert (agent.dialect, agent.context_tokens, agent.calls_answer) == ("hermes", 924, True)
    assert agent_of(model, Agent(context_tokens=300), 100).context_tokens == 300
    assert agent_of(model, Agent(), 5000).context_tokens == 1


async def test_a_model_without_tools_is_told_of_them(far: Far) -> None:
    """The request has no `tools`; the instructions describe them."""
    model = Model(**QWEN | {"tools": False})
    await far.model(sampling_of(model, 0.0, 64, 5)).complete(ASKED, TOOL_SCHEMAS, 1)
    assert "tools" not in far.asked
    assert "<tool_call>" in far.asked["messages"][0]["content"]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("back", [None, "reasoning_content", "reasoning"])
async def test_what_a_model_thought_is_kept_and_sent_back_only_on_wish(
    far: Far, name: str, back: Any
) -> None:
    """Reasoning is stored under either field name, and a reply that has nothing but reasoning is no
    failure."""
    thought: dict[str, Any] = {name: "let me see"}
    far.says(completion("", **thought))
    model = far.model(Sampling(reasoning_field=back))
    reply = await model.complete(ASKED, [], 1)
    kept = {"role": "assistant", "content": "", "reasoning": "let me see"}
    assert reply.message == kept
    await model.complete([*ASKED, reply.message, *ASKED], [], 2)
    sent = far.asked["messages"][1]
    expected = {} if back is None else {back: "let me see"}
    assert sent == {"role": "assistant", "content": ""} | expected
    assert reply.message == kept  # what is recorded is not touched


@pytest.mark.parametrize("odd", [None, "", 3, ["a"], {"text": "a"}])
async def test_reasoning_of_an_odd_shape_is_left(far: Far, odd: Any) -> None:
    """Reasoning that is not text is not stored."""
    far.says(completion("hi", reasoning_content=odd))
    reply = await far.model().complete(ASKED, [], 1)
    assert reply.message == {"role": "assistant", "content": "hi"}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "This model's maximum context length is 4096 tokens."),
        (400, "prompt is too long: 215000 tokens > 200000 maximum"),
        (422, "`inputs` tokens + `max_new_tokens` must be <= 4097"),
        (400, "the request exceeds the available context size"),
    ],
)
async def test_a_prompt_that_is_too_long_is_no_failure_of_the_server(
    far: Far, status: int, text: str
) -> None:
    """Each provider words this error differently."""
    far.says({"error": {"message": text}}, status)
    with pytest.raises(ContextExceeded):
        await far.model().complete(ASKED, [], 1)


async def test_another_refusal_is_one(far: Far) -> None:
    """Any other refusal keeps its status and the provider's message."""
    far.says({"error": {"message": "temperature must be 1"}}, 400)
    with pytest.raises(ModelCallFailed, match=r"HTTP 400: .*temperature must be 1") as failed:
        await far.model().complete(ASKED, [], 1)
    assert failed.value.status == 400
    assert json.loads(str(failed.value).removeprefix("HTTP 400: "))["error"]


@pytest.mark.parametrize(
    ("role", "kept"),
    [("orchestrator", "kept"), ("expert", "auxiliary"), ("judge", "auxiliary")],
)
async def test_who_stores_a_calls_messages_is_said(far: Far, role: str, kept: str) -> None:
    """The sweep stores the agent's messages with the attempt; the gateway stores all others."""
    far.says(completion("hi"))
    origin = CallOrigin("p", "cell:1", role)
    model = GatewayModel(far.client, "m", origin, Sampling(), retry=Retry({}))
    await model.complete(ASKED, (), 1, positions=(0,))
    headers = far.double.requests[-1][0]
    assert headers["X-Tutti-Messages"] == kept
    assert ("X-Tutti-Spans" in headers) == (role == "orchestrator")
