"""Tests of probing a model with small calls: each property, and each way in which it can be
wrong."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.engine_double import EngineDouble, completion
from tutti.tasks.serving.registry import Model
from tutti.tasks.serving.served.probing import Probe, probe_model

CALL = {"id": "c1", "type": "function"}
GOOD_CALL = CALL | {"function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}


class Server(EngineDouble):
    """Model with all properties; `wrong` changes one response."""

    def __init__(self, **wrong: Any) -> None:
        super().__init__()
        self.wrong = wrong

    async def answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body["max_tokens"] > 512 and not self.wrong.get("unlimited"):
            return web.json_response({"error": {"message": "too long"}}, status=400)
        if body.get("stream"):
            return self._streamed()
        usage = {"prompt_tokens": 40, "completion_tokens": 3}
        usage |= self.wrong.get("usage", {"prompt_tokens_details": {"cached_tokens": 32}})
        message: dict[str, Any] = {}
        if body.get("tools") and body["messages"][-1]["role"] == "user":
            message = {"content": "", "tool_calls": [GOOD_CALL]} | self.wrong.get("call", {})
        said = completion(message.pop("content", "Hello."), usage, **message)
        if body.get("logprobs"):
            tokens = [{"token": "Hello", "logprob": -0.1}]
            said["choices"][0] |= {"logprobs": {"content": tokens}, "token_ids": [7]}
            said["choices"][0] |= self.wrong.get("tokens", {})
        return web.json_response(said)

    def _streamed(self) -> web.Response:
        pieces = self.wrong.get("pieces", 3)
        events: list[Any] = [{"choices": [{"delta": {"content": "x"}}]}] * pieces
        events.append({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 3}})
        lines = "".join(f"data: {json.dumps(each)}\n\n" for each in events)
        return web.Response(text=lines + "data: [DONE]\n\n", content_type="text/event-stream")


MODEL = Model.model_validate(
    {"provider": "vllm", "endpoint": "http://h/v1", "context_tokens": 512, "record_tokens": True}
)


@pytest.fixture
async def servers() -> AsyncIterator[Any]:
    started: list[TestServer] = []

    async def start(server: EngineDouble) -> dict[str, Probe]:
        started.append(TestServer(server.application()))
        await started[-1].start_server()
        url = str(started[-1].make_url("")).rstrip("/")
        return {probe.name: probe for probe in await probe_model(url, "m", MODEL)}

    yield start
    for each in started:
        await each.close()


async def test_a_model_that_does_all_of_it(servers: Any) -> None:
    found = await servers(Server())
    names = ["answers", "usage", "prefix cache", "tools", "stream", "context", "token ids"]
    assert list(found) == names
    assert {probe.status for probe in found.values()} == {"ok"}, found


@pytest.mark.parametrize(
    ("wrong", "name", "status", "mend"),
    [
        (
            {"usage": {"prompt_tokens": 0, "prompt_tokens_details": {"cached_tokens": 32}}},
            "usage", "failed", "tokens and cost are unknown",
        ),
        ({"usage": {}}, "prefix cache", "warning", "--enable-prompt-tokens-details"),
        (
            {"usage": {"prompt_tokens_details": {"cached_tokens": 0}}},
            "prefix cache", "warning", "enable-prefix-caching",
        ),
        (
            {"call": {"tool_calls": [], "content": "<tool_call>{}</tool_call>"}},
            "tools", "failed", "engine.tool_parser",
        ),
        ({"call": {"tool_calls": [], "content": "Rain."}}, "tools", "warning", "your own tools"),
        (
            {"call": {"tool_calls": [CALL | {"function": {"name": "f", "arguments": "{"}}]}},
            "tools", "warning", "engine.tool_parser",
        ),
        (
            {"call": {"tool_calls": [CALL | {"function": {"name": "f", "arguments": "{}"}}]}},
            "tools", "warning", "your own tools",
        ),
        ({"pieces": 1}, "stream", "warning", "first token"),
        ({"unlimited": True}, "context", "warning", "context_tokens"),
        ({"tokens": {"token_ids": None}}, "token ids", "failed", "vLLM"),
        ({"tokens": {"logprobs": None}}, "token ids", "failed", "log probabilities"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_with_what_mends_it(
    servers: Any, wrong: dict[str, Any], name: str, status: str, mend: str
) -> None:
    found = await servers(Server(**wrong))
    assert (found[name].status, mend in found[name].mend) == (status, True), found[name]
    assert all(probe.status == "ok" for each, probe in found.items() if each != name)


class SmallVocabulary(Server):
    """Server that counts two tokens for three characters and refuses a prompt longer than its
    context."""

    async def answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        """Respond with usage by the prompt's length; a repeated prompt counts as cached."""
        tokens = len(body["messages"][0]["content"]) * 2 // 3
        if tokens > MODEL.context_tokens:
            return web.json_response({"error": {"message": f"{tokens} tokens"}}, status=400)
        before = [each["messages"] == body["messages"] for _, each in self.requests[:-1]]
        self.wrong = {"usage": {"prompt_tokens": tokens}}
        if any(before):
            self.wrong["usage"]["prompt_tokens_details"] = {"cached_tokens": tokens}
        return await super().answer(request, body)


async def test_the_prompt_that_is_sent_again_fits_any_vocabulary(servers: Any) -> None:
    """The prompt's sentences are counted in the model's own tokens; the rest of the context is not
    used."""
    server = SmallVocabulary()
    found = (await servers(server))["prefix cache"]
    assert found.status == "ok", found
    longest = max(len(body["messages"][0]["content"]) for _, body in server.requests) * 2 // 3
    assert MODEL.context_tokens // 4 < longest <= MODEL.context_tokens // 2


async def test_a_refusal_is_told_in_its_own_words(servers: Any) -> None:
    server = Server()

    async def refuse(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if body.get("tools"):
            error = {"error": {"message": "no tools here", "code": 400}}
            return web.json_response(error, status=400)
        return await server.answer(request, body)

    server.reply = refuse
    assert (await servers(server))["tools"].found == "HTTP 400: no tools here"


async def test_a_model_that_does_not_answer_is_asked_no_more(servers: Any) -> None:
    server = Server()

    async def refuse(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no such model"}}, status=404)

    server.reply = refuse
    found = await servers(server)
    assert list(found) == ["answers"] and found["answers"].status == "failed"
    assert "no such model" in found["answers"].found and len(server.requests) == 1
