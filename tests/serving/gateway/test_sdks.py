"""Tests of the official, unchanged clients of OpenAI and Anthropic through the gateway, blocking
and async."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, NotFoundError, OpenAI

from tests.serving.conftest import Bench
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import (
    DONE,
    USAGE,
    ReceivedRequest,
    Wire,
    answering,
    event,
    streaming,
    whole,
)
from tutti.tasks.serving.registry.models import Model

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "os"}'},
}
SEARCH = {"name": "search", "description": "", "parameters": {"type": "object", "properties": {}}}
TOOLS: Any = [{"type": "function", "function": SEARCH}]
CHAT = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE}
MESSAGES: Any = [{"role": "user", "content": "hello"}]
CLAUDE_USAGE = {"input_tokens": 20, "cache_read_input_tokens": 96, "output_tokens": 30}


def chat(**message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None} | message
    choice = {"index": 0, "message": said, "finish_reason": "stop", "logprobs": None}
    return CHAT | {"choices": [choice]}


def piece(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    said = {name: CHAT[name] for name in ("id", "created", "model")}
    return event(said | {"object": "chat.completion.chunk", "choices": [choice]})


async def openais(asked: ReceivedRequest, wire: Wire) -> None:
    """Act as a chat endpoint: reply with a call if tools are given, else with a few words."""
    if asked.json().get("stream"):
        words = [piece({"role": "assistant", "content": w}) for w in ("Good", " day", "!")]
        await streaming(*words, piece({}, "stop"), DONE)(asked, wire)
    elif asked.json().get("tools"):
        await answering(whole(chat(tool_calls=[CALL])))(asked, wire)
    else:
        await answering(whole(chat(content="Good day!")))(asked, wire)


async def anthropics(asked: ReceivedRequest, wire: Wire) -> None:
    """Act as a messages endpoint: reply with a call if tools are given, else with a few words."""
    message: dict[str, Any] = {"id": "m1", "type": "message", "role": "assistant", "model": "m"}
    message |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": CLAUDE_USAGE}
    if asked.json().get("stream"):
        await streaming(*claude_events(message))(asked, wire)
    elif asked.json().get("tools"):
        call = {"type": "tool_use", "id": "t1", "name": "search", "input": {"query": "os"}}
        await answering(whole(message | {"content": [call], "stop_reason": "tool_use"}))(
            asked, wire
        )
    else:
        text = {"type": "text", "text": "Good day!"}
        await answering(whole(message | {"content": [text]}))(asked, wire)


def claude_events(message: dict[str, Any]) -> list[bytes]:
    text = {"type": "text", "text": ""}
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": text},
    ]
    for word in ("Good", " day", "!"):
        delta = {"type": "text_delta", "text": word}
        said.append({"type": "content_block_delta", "index": 0, "delta": delta})
    said.append({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    said.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 30}})
    said.append({"type": "message_stop"})
    return [f"event: {each['type']}\n".encode() + event(each) for each in said]


def base(bench: Bench, program: str) -> str:
    return f"http://127.0.0.1:{bench.gateway.server.port}/p/{program}"


def ask_openai(url: str) -> list[Any]:
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        ask = client.chat.completions.create
        words = ask(model="m", messages=MESSAGES).choices[0].message.content
        called = ask(model="m", messages=MESSAGES, tools=TOOLS).choices[0].message.tool_calls
        chunks = ask(model="m", messages=MESSAGES, stream=True)
        streamed = [c.choices[0].delta.content for c in chunks if c.choices]
    return [words, [call.model_dump() for call in called or []], streamed]


async def ask_openai_async(url: str) -> list[Any]:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        ask = client.chat.completions.create
        words = (await ask(model="m", messages=MESSAGES)).choices[0].message.content
        answer = await ask(model="m", messages=MESSAGES, tools=TOOLS)
        called = answer.choices[0].message.tool_calls
        chunks = await ask(model="m", messages=MESSAGES, stream=True)
        streamed = [c.choices[0].delta.content async for c in chunks if c.choices]
    return [words, [call.model_dump() for call in called or []], streamed]


async def test_openais_clients(raw: Bench) -> None:
    """Text, tool calls and streams are the same as without a gateway, and everything is
    recorded."""
    raw.engine.reply = openais
    found = await asyncio.to_thread(ask_openai, base(raw, "sync"))
    assert found[0] == "Good day!"
    assert found[1] == [CALL]
    assert found[2] == ["Good", " day", "!", None]
    assert await ask_openai_async(base(raw, "async")) == found
    rows = await raw.calls()
    assert [row["attempt_id"] for row in rows] == ["sync"] * 3 + ["async"] * 3
    assert {row["status"] for row in rows} == {"ok"}
    said = await raw.rows("select tool_calls from messages where len(tool_calls) > 0")
    assert {row["tool_calls"][0]["arguments"] for row in said} == {'{"query": "os"}'}


async def test_openais_client_gets_the_providers_errors(raw: Bench) -> None:
    refused = {"error": {"message": "no such model", "type": "invalid_request_error"}}
    raw.engine.reply = answering(whole(refused, 404))
    url = f"{base(raw, 'p')}/v1"
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        with pytest.raises(NotFoundError, match="no such model"):
            await client.chat.completions.create(model="nope", messages=MESSAGES)


def ask_anthropic(url: str) -> list[Any]:
    tools: Any = [{"name": "search", "input_schema": SEARCH["parameters"]}]
    with Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        ask = client.messages.create
        words = ask(model="m", max_tokens=9, messages=MESSAGES).content[0]
        called = ask(model="m", max_tokens=9, messages=MESSAGES, tools=tools).content[0]
        with client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream:
            streamed = list(stream.text_stream)
    return [words.to_dict()["text"], called.to_dict()["input"], streamed]


async def ask_anthropic_async(url: str) -> list[Any]:
    tools: Any = [{"name": "search", "input_schema": SEARCH["parameters"]}]
    async with AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
        ask = client.messages.create
        words = (await ask(model="m", max_tokens=9, messages=MESSAGES)).content[0]
        answer = await ask(model="m", max_tokens=9, messages=MESSAGES, tools=tools)
        called = answer.content[0]
        async with client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream:
            streamed = [text async for text in stream.text_stream]
    return [words.to_dict()["text"], called.to_dict()["input"], streamed]


async def test_anthropics_clients(make_raw: MakeRaw, monkeypatch: pytest.MonkeyPatch) -> None:
    """The native protocol is used for a registry entry, whose key replaces the client's."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-real-key")
    model = Model(provider="anthropic", context_tokens=200_000)
    bench = await make_raw(
        endpoint={
            "api_key_env": model.api_key_env,
            "key_header": model.key_header,
            "models": ("m",),
            "metrics": model.metrics,
        }
    )
    bench.engine.reply = anthropics
    found = await asyncio.to_thread(ask_anthropic, base(bench, "sync"))
    assert found == ["Good day!", {"query": "os"}, ["Good", " day", "!"]]
    assert await ask_anthropic_async(base(bench, "async")) == found
    assert {each.headers["x-api-key"] for each in bench.engine.asked} == {"the-real-key"}
    rows = await bench.calls()
    assert [row["attempt_id"] for row in rows] == ["sync"] * 3 + ["async"] * 3
    used = {(row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"]) for row in rows}
    assert used == {(116, 96, 30)}
    assert "the-real-key" not in json.dumps(rows, default=str)
