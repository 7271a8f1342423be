"""End-to-end tests of streams through the gateway on loopback."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.serving.conftest import Bench, until
from tests.serving.engine_double import USAGE
from tutti import storage

DONE = "data: [DONE]\n\n"


def chunk(**fields: Any) -> str:
    return f"data: {json.dumps({'object': 'chat.completion.chunk'} | fields)}\n\n"


def delta(text: str, finish: str | None = None) -> str:
    return chunk(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": finish}])


def streaming(*pieces: str, pause_s: float = 0.0, cut: bool = False) -> Any:
    """Return a reply that sends `pieces` as server-sent events; `cut` closes the connection after
    them."""

    async def reply(request: web.Request, _: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece.encode())
            await asyncio.sleep(pause_s)
        if cut:
            assert request.transport is not None
            request.transport.close()
        return response

    return reply


async def test_a_stream_passes_unchanged_and_its_last_usage_counts(bench: Bench) -> None:
    """Continuous usage statistics grow; comments and unknown events are passed on, too."""
    usages = [USAGE | {"completion_tokens": n} for n in (1, 2)]
    events = [": ping\n\n", delta("h"), chunk(choices=[], usage=usages[0]), delta("i", "stop")]
    events += [chunk(choices=[], usage=usages[1]), DONE]
    bench.engine.reply = streaming(*events, pause_s=0.01)
    answer = await bench.chat("p", stream=True, stream_options={"include_usage": True})
    assert answer.content_type == "text/event-stream"
    assert await answer.text() == "".join(events)
    (row,) = await bench.calls()
    assert (row["completion_tokens"], row["prompt_tokens"], row["cached_tokens"]) == (2, 120, 96)
    assert (row["finish_reason"], row["status"]) == ("stop", "ok")
    assert 0 < row["ttft_s"] < row["latency_s"]
    assert row["first_token_at"] is not None


async def test_a_long_event_passes_whole(bench: Bench) -> None:
    """Tool arguments or log probabilities give lines of hundreds of kilobytes."""
    events = (delta("x" * 700_000, "stop"), chunk(choices=[], usage=USAGE), DONE)
    bench.engine.reply = streaming(*events)
    answer = await bench.chat("p", stream=True, stream_options={"include_usage": True})
    assert await answer.text() == "".join(events)
    assert (await bench.calls())[0]["status"] == "ok"


async def test_a_stream_that_breaks_off_is_an_error_to_the_client_too(bench: Bench) -> None:
    bench.engine.reply = streaming(delta("h"), cut=True)
    with pytest.raises(aiohttp.ClientError):
        answer = await bench.chat("p", stream=True)
        await asyncio.wait_for(answer.read(), 60)
    await until(lambda: not bench.gateway.in_flight, "the call is over")
    assert (await bench.calls())[0]["status"] == "infra_error"


async def test_a_client_that_leaves_a_stream_is_recorded_as_cancelled(bench: Bench) -> None:
    bench.engine.reply = streaming(*[delta("x" * 1000)] * 500, pause_s=0.01)
    async with aiohttp.ClientSession() as another:
        url = f"http://127.0.0.1:{bench.gateway.server.port}/v1/chat/completions"
        answer = await another.post(url, json={"program_id": "p", "stream": True})
        await answer.content.readline()
        answer.close()
    await until(lambda: not bench.gateway.in_flight, "the call is over")
    assert (await bench.calls())[0]["status"] == "cancelled"


async def test_time_held_is_not_counted_as_time_between_tokens(bench: Bench) -> None:
    """The summary's inter-token latency of a held call is that of its stream."""
    await bench.begin("cap", 1)
    await bench.chat("first")
    usage = chunk(choices=[], usage=USAGE | {"completion_tokens": 6})
    bench.engine.reply = streaming(*[delta("x")] * 5, delta("x", "stop"), usage, pause_s=0.02)
    waiting = asyncio.create_task(bench.chat("second", stream=True))
    await bench.until_held("second")
    await asyncio.sleep(0.4)
    await bench.release("first")
    await (await waiting).read()
    (call,) = [row for row in await bench.calls() if row["attempt_id"] == "second"]
    sql = "select itl_p50 from window_summary('cell:1', 0, 60)"
    (row,) = storage.query(sql, bench.catalog.home)
    assert call["held_s"] >= 0.4
    assert 0.01 < row["itl_p50"] <= (call["latency_s"] - call["held_s"]) / 5
