"""Tests of events in any order against a real gateway: every call ends once and leaves nothing
behind."""

import asyncio
import random
from typing import Any

import aiohttp
import pytest

from tests.serving.conftest import Bench, released, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import (
    COMPLETION,
    DONE,
    STREAM_HEAD,
    USAGE,
    RawEngine,
    ReceivedRequest,
    Reply,
    Wire,
    answering,
    chunk,
    delta,
    event,
    streaming,
    whole,
)

CALLS, WIDTH, PROGRAMS = 120, 12, 8
USAGE_EVENT = event({"choices": [], "usage": USAGE})
OK_STREAM = streaming(delta("x"), delta("y", "stop"), USAGE_EVENT, DONE, pause_s=0.001)


async def _reset(_: ReceivedRequest, wire: Wire) -> None:
    wire.reset()


async def _break(_: ReceivedRequest, wire: Wire) -> None:
    await wire.write(STREAM_HEAD + chunk(delta("x")))
    wire.close()


async def _hang(_: ReceivedRequest, wire: Wire) -> None:
    await wire.gone()
    wire.close()


FAULTS: tuple[Reply, ...] = (
    _reset,
    _break,
    _hang,
    answering(whole({"error": "no"}, 500)),
    answering(whole({"error": "no"}, 503)),
    answering(whole({"error": "no"}, 429, "Retry-After: 0.01\r\n")),
    answering(whole(b"{broken")),
    answering(b"garbage\r\n\r\n"),
)


def chance(draw: random.Random) -> Reply:

    async def reply(asked: ReceivedRequest, wire: Wire) -> None:
        if not asked.path.endswith("/completions"):
            await wire.write(whole({"count": 20}))
        elif draw.random() < 0.3:
            await draw.choice(FAULTS)(asked, wire)
        elif asked.json().get("stream"):
            await OK_STREAM(asked, wire)
        else:
            await asyncio.sleep(draw.random() / 100)
            await wire.write(whole(COMPLETION))

    return reply


async def one_call(bench: Bench, draw: random.Random, number: int) -> None:
    """Make a call of an impatient client, then perhaps a release, a new cell or lost
    connections."""
    name, what = f"p{draw.randrange(PROGRAMS)}", draw.random()
    patience = aiohttp.ClientTimeout(total=draw.choice([0.01, 0.05, 5.0, 5.0]))
    body = {"model": "m", "stream": draw.random() < 0.5}
    headers = {"X-Call-Id": f"call-{number}"}
    url = f"/p/{name}/v1/chat/completions"
    try:
        async with bench.client.post(url, json=body, headers=headers, timeout=patience) as answer:
            await answer.read()
    except (aiohttp.ClientError, TimeoutError):
        return  # as clients do
    if what < 0.2:
        await bench.release(name)
    elif what < 0.24:
        policy = draw.choice(["cap", "adaptive", "thunderagent", "passthrough"])
        await bench.begin(policy, 3, cell=f"cell:{number}")
    elif what < 0.26:
        bench.engine.drop()


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_every_call_ends_once(
    make_raw: MakeRaw, engines: tuple[RawEngine, RawEngine], seed: int, monkeypatch: Any
) -> None:
    """The events are errors, hangs, truncated streams, impatient clients, releases, new cells and
    lost connections."""
    monkeypatch.setattr("tutti.tasks.serving.gateway.endpoints.endpoint.BREAK_FIRST_S", 0.02)
    draw = random.Random(seed)
    for engine in engines:
        engine.reply = chance(draw)
    failures: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    bench = await make_raw(*engines, policy="adaptive", upstream_s=0.1, hold_s=0.5, comment_s=0.02)
    numbers = iter(range(CALLS))

    async def client() -> None:
        for number in numbers:
            await one_call(bench, draw, number)

    await asyncio.wait_for(asyncio.gather(*[client() for _ in range(WIDTH)]), 60)
    await until(lambda: not bench.gateway.in_flight, "every call has ended")
    await released(bench.gateway)
    rows = await bench.rows("select call_id, status from calls")
    assert len({row["call_id"] for row in rows}) == len(rows) <= CALLS
    assert {row["status"] for row in rows} <= {"ok", "infra_error", "model_error", "cancelled"}
    assert sum(row["status"] == "ok" for row in rows) > CALLS / 10
    assert failures == []
    loop.set_exception_handler(None)
