"""Tests of large bodies: read in several turns of the event loop, within limits."""

import asyncio
import io
import time
from collections.abc import Generator
from typing import Any

import aiohttp
import orjson
import pytest

from tests.serving.conftest import Bench, released
from tutti.tasks.serving.gateway import app
from tutti.tasks.serving.gateway.calls.record import usage_of_large
from tutti.tasks.serving.gateway.calls.request import read_large
from tutti.tasks.serving.gateway.calls.routes import BadRequest
from tutti.tasks.serving.wire.connection import ServerLimits
from tutti.tasks.serving.wire.exchange import LARGE_BYTES

MIB = 2**20
MOST = ServerLimits().body_bytes
MESSAGE = b'{"role":"user","content":"x"}'


def steps_of(data: bytes) -> tuple[list[float], Any]:
    """Return the CPU seconds of each turn that a body takes, and the body or its refusal."""
    work: Generator[None, None, Any] = read_large(data).__await__()
    steps = list[float]()
    while True:
        began = time.thread_time()
        try:
            next(work)
        except StopIteration as over:
            return [*steps, time.thread_time() - began], over.value
        except BadRequest as refused:
            return [*steps, time.thread_time() - began], refused
        steps.append(time.thread_time() - began)


def keys(count: int) -> bytes:
    return b'{"a":{%b}}' % b",".join([b'"k%d":1' % number for number in range(count)])


def test_a_large_body_is_read_in_turns() -> None:
    data = orjson.dumps({"messages": [{"role": "user", "content": 'a "text" of MiB ' * MIB}]})
    steps, body = steps_of(data)
    assert body == orjson.loads(data)
    assert len(steps) >= len(data) // LARGE_BYTES + 3


@pytest.mark.parametrize(
    "data, reason",
    [
        (keys(300_000), "keys and texts"),
        (b'{"messages":[%b]}' % b",".join([MESSAGE] * 50_000), "keys and texts"),
        (b'{"input":[%b]}' % b",".join([b'"a\\\\"'] * 250_000), "keys and texts"),
        (b'{"a":[%b1]}' % (b"1," * MIB), "values"),
        (b'{"a":%b%b}' % (b"[" * 500, b"]" * 500) + b" " * MIB, "nested"),
        (b"[%b]" % (b" " * MIB), "object"),
        (b'{"a":%b}' % (b" " * MIB), "JSON"),
    ],
)
def test_a_body_of_too_much_is_refused(data: bytes, reason: str) -> None:
    steps, refused = steps_of(data + b" " * (MIB + 1 - len(data)))
    assert isinstance(refused, BadRequest) and reason in str(refused)
    assert len(steps) <= len(data) // MIB + 5


@pytest.mark.slow
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "data",
    [
        b'{"a":"%b"}' % (b"hello wor " * (MOST // 11)),
        '{{"a":"\U0001f600{}"}}'.format("x" * (MOST - 100)).encode(),
        b'{"a":"%b"}' % (rb"\ud83d\ude00" * (MOST // 13)),
        keys(99_000),
        b'{"messages":[%b]}' % b",".join([MESSAGE] * 24_900),
        b'{"a":[%b1]}' % (b"123456," * 999_000),
        b'{"a":[%b[]]}' % (b"[1]," * 330_000),
    ],
    ids=["text", "wide", "escapes", "keys", "messages", "numbers", "lists"],
)
def test_no_turn_is_long(data: bytes) -> None:
    """A turn takes 30 ms of CPU time here; the bound is for a shared machine.
    `bench.gateway.stalls` measures the whole gateway."""
    assert len(data) <= MOST
    (steps, body), again = steps_of(data), steps_of(data)[0]
    assert isinstance(body, dict)
    assert min(max(steps), max(again)) < 0.15


def chat(text: str, program: str = "") -> bytes:
    messages = [{"role": "user", "content": text}]
    return orjson.dumps({"model": "m", "messages": messages, "program_id": program})


async def post(raw: Bench, path: str, body: bytes) -> aiohttp.ClientResponse:
    headers = {"Content-Type": "application/json"}
    return await raw.client.post(f"/v1/{path}", data=io.BytesIO(body), headers=headers)


async def test_large_calls_are_answered_or_refused(raw: Bench) -> None:
    text = "a" * (2 * MIB)
    assert (await post(raw, "chat/completions", chat(text, "p"))).status == 200
    assert raw.engine.asked[-1].json()["messages"][0]["content"] == text
    assert "program_id" not in raw.engine.asked[-1].json()
    for body in (keys(200_000), b"{" + b" " * (2 * MIB)):
        assert (await post(raw, "chat/completions", body)).status == 400
    assert (await post(raw, "tokenize", chat(text))).status == 200
    rows = await raw.rows("select content from messages where role = 'user' order by position")
    assert text in str(rows[0]["content"])
    await released(raw.gateway)


async def test_a_client_that_leaves_while_its_body_is_read_leaves_nothing(
    raw: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, lock = raw.gateway, asyncio.Lock()

    async def read(data: bytes) -> Any:
        async with lock:
            return await read_large(data)

    monkeypatch.setattr(app, "read_large", read)
    async with lock:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(post(raw, "chat/completions", chat("a" * 2 * MIB)), 0.5)
        while gateway.server.buffered:  # until it is seen to be gone
            await raw.client.get("/health")
    assert (await raw.chat("p")).status == 200
    assert len(raw.engine.asked) == 1
    await released(gateway)


@pytest.mark.parametrize("name", ["model", "program_id", "job_id"])
async def test_a_name_is_text(raw: Bench, name: str) -> None:
    fields: dict[str, Any] = {name: [1] * 1000}
    answer = await raw.chat(**fields)
    assert answer.status == 400 and "must be text" in await answer.text()


LARGE = b'{"choices":[{"text":"%b"}]' % (b"x" * MIB)


@pytest.mark.parametrize(
    "answer, usage",
    [
        (LARGE + b',"usage":{"prompt_tokens":3}}', {"prompt_tokens": 3}),
        (LARGE + b',"usage": {"prompt_tokens":3},"more":[1]}', {"prompt_tokens": 3}),
        (LARGE + b',"usage":null}', None),
        (LARGE + b',"usage":{', None),
        (LARGE + b"}", None),
        (b'{"usage":{"prompt_tokens":3}}', None),
    ],
)
def test_the_usage_of_a_large_answer_is_found(answer: bytes, usage: Any) -> None:
    assert usage_of_large(answer).get("usage") == usage


async def test_a_large_answer_is_recorded_whole(raw: Bench) -> None:
    """Finish reason, message and cost are recorded as for a small response."""
    from tests.serving.gateway.raw_engine import USAGE, answering, whole

    text = "y" * (2 * MIB)
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "length"}
    raw.engine.reply = answering(whole({"choices": [{"index": 0, **choice}], "usage": USAGE}))
    answer = await raw.chat("p")
    assert (await answer.json())["choices"][0]["message"]["content"] == text
    assert "X-Tutti-Cost-Usd" in answer.headers
    (row,) = await raw.calls()
    found = (row["status"], row["finish_reason"], row["completion_tokens"])
    assert found == ("ok", "length", USAGE["completion_tokens"])
    (said,) = await raw.rows("select content from messages where role = 'assistant'")
    assert text in str(said["content"])
