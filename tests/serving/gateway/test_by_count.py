"""Tests of engines whose load is unknown: their calls are limited by count, and none waits for the
maximum hold time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.serving.conftest import BOSS, Bench, released, until
from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import COMPLETION, RawEngine, ReceivedRequest, Wire, whole

MODELS = {"object": "list", "data": [{"id": "m"}]}
Page = tuple[int, bytes]
GONE: Page = (404, b"no such page")
FOREIGN: Page = (200, b"http_requests_total 3.0\n")
HTML: Page = (200, b"<!doctype html><title>hello</title>")
VLLM: Page = (200, b'vllm:num_requests_running{engine="0",model_name="m"} 0.0\n')


class Server:
    """Server with fixed responses; `page` is its /metrics, and None closes the connection."""

    def __init__(self, page: Page | None) -> None:
        self.page, self.models = page, MODELS
        self.inside = self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, asked: ReceivedRequest, wire: Wire) -> None:
        if asked.path == "/metrics":
            if self.page is None:
                wire.reset()
                return
            await wire.write(whole(self.page[1], self.page[0]))
        elif asked.path == "/v1/models":
            await wire.write(whole(self.models))
        elif asked.path != "/v1/chat/completions":  # the gateway's own questions
            await wire.write(whole({}, 404))
        else:
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self.gate.wait()
            await asyncio.sleep(0.01)
            self.inside -= 1
            await wire.write(whole(COMPLETION))


Serve = Callable[..., Awaitable[tuple[Bench, Server]]]


@pytest.fixture
def serve(engines: tuple[RawEngine, RawEngine], make_raw: MakeRaw) -> Serve:

    async def made(page: Page | None, **settings: Any) -> tuple[Bench, Server]:
        engine, server = engines[0], Server(page)
        engine.reply = engine.probed = server
        endpoint = {"measure": False} | settings.pop("endpoint", {})
        return await make_raw(engine, endpoint=endpoint, **settings), server

    return made


@pytest.mark.parametrize("policy", ["adaptive", "passthrough", "thunderagent", "continuum"])
@pytest.mark.parametrize("page", [GONE, FOREIGN, HTML])
async def test_calls_are_sent_by_count(
    serve: Serve, page: Page, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The number of concurrent calls is at most that of the slots, all are answered, and a warning
    is logged."""
    with caplog.at_level(logging.WARNING):
        bench, server = await serve(page, policy=policy, slots=3)
    calls = [asyncio.create_task(bench.chat(f"p{number}")) for number in range(12)]
    assert {(await call).status for call in calls} == {200}
    assert server.most == 3
    assert any("at most 3 at a time" in record.getMessage() for record in caplog.records)
    sql = "select reason from gateway_events where reason_code = 'no_metrics'"
    assert len(await bench.rows(sql)) == 1
    await released(bench.gateway)


async def test_the_endpoints_own_limit_comes_first(serve: Serve) -> None:
    bench, server = await serve(GONE, slots=8, endpoint={"max_calls": 2})
    calls = [asyncio.create_task(bench.chat(f"p{number}")) for number in range(6)]
    assert {(await call).status for call in calls} == {200}
    assert server.most == 2


@pytest.mark.parametrize("page", [GONE, None])
async def test_metrics_that_end_and_come_back(serve: Serve, page: Page | None) -> None:
    """The engine stays in service: limited by count while its metrics are unavailable, and without
    that limit afterwards."""
    bench, server = await serve(VLLM, slots=2)
    endpoint = bench.gateway.pools.find("engine:1")[1]
    assert endpoint.engine.max_calls is None and not endpoint.lacks
    server.page = page
    await until(lambda: endpoint.lacks, "the metrics are missed")
    assert endpoint.engine.accepting and endpoint.engine.max_calls == 2
    calls = [asyncio.create_task(bench.chat(f"p{number}")) for number in range(6)]
    assert {(await call).status for call in calls} == {200}
    assert server.most == 2
    shown = (await (await bench.client.get("/engines", headers=BOSS)).json())[0]
    assert shown["lacks"] and shown["max_calls"] == 2
    server.page = VLLM
    await until(lambda: not endpoint.lacks, "the metrics are back")
    assert endpoint.engine.max_calls is None and endpoint.engine.accepting


async def test_a_capacity_that_is_known_stays(serve: Serve) -> None:
    bench, server = await serve(VLLM, policy="adaptive", endpoint={"capacity_tokens": 4096})
    endpoint = bench.gateway.pools.find("engine:1")[1]
    server.page = GONE
    await until(lambda: endpoint.lacks, "the metrics are missed")
    assert endpoint.engine.capacity_tokens == 4096 and endpoint.engine.max_calls is None
    assert (await bench.chat("p")).status == 200


async def test_an_engine_that_is_gone_is_not_counted(serve: Serve) -> None:
    """Neither its metrics nor its models respond: it gets no calls until it is back."""
    bench, server = await serve(VLLM)
    endpoint = bench.gateway.pools.find("engine:1")[1]
    server.page, server.models = None, {"error": "loading"}
    await until(lambda: not endpoint.engine.accepting, "it is out of service")
    server.models = MODELS
    await until(lambda: endpoint.engine.accepting, "it is back, without metrics")
    assert endpoint.lacks
