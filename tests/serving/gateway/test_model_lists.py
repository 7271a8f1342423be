"""Tests of engines whose list of models (GET /v1/models) is missing, refused, or late."""

import asyncio

import pytest

from tests.serving.gateway.conftest import MakeRaw
from tests.serving.gateway.raw_engine import raw_engine
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint, ProbeFailed


@pytest.mark.parametrize("status", [401, 404, 405])
async def test_an_engine_needs_no_list_if_its_models_are_named(
    make_raw: MakeRaw, status: int
) -> None:
    async with raw_engine(list_status=status) as engine:
        bench = await make_raw(engine, endpoint={"models": ("m",)})
        assert await asyncio.wait_for(bench.chat("p"), 60)
        (endpoint,) = bench.gateway.pools.all_endpoints()
        assert endpoint.models == ("m",) and endpoint.engine.capacity_tokens == engine.capacity
        await bench.gateway.stop(grace_s=0.0)


@pytest.mark.parametrize(
    ("status", "models", "reason"),
    [
        (404, (), r"/v1/models \(HTTP 404\) is not a list of models: .*name them in"),
        # Engines answer so while they load weights: they are asked again.
        (503, (), "^/v1/models answered 503$"),
        (503, ("m",), "^/v1/models answered 503$"),
    ],
)
async def test_otherwise_the_reason_says_why_it_gets_no_calls(
    status: int, models: tuple[str, ...], reason: str
) -> None:
    async with raw_engine(list_status=status) as engine:
        endpoint = Endpoint.make(engine.endpoint(models=models))
        with pytest.raises(ProbeFailed, match=reason):
            await endpoint.read_models()
        await endpoint.origin.close()
