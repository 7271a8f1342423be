"""Tests of endpoints that serve registry entries: called by the entry's name, forwarded with the
served name."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.conftest import BOSS, Bench, running
from tests.serving.engine_double import EngineDouble
from tutti import storage
from tutti.tasks.serving.gateway.calls.request import with_model
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig, ServedEntry
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.registry.models import Prices


class Engine(EngineDouble):
    """Engine that also counts tokens and describes one model."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[str] = []
        """Names in requests that use no KV cache."""

    def application(self) -> web.Application:
        app = super().application()
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_get("/v1/models/{name:.+}", self._model)
        return app

    async def _tokenize(self, request: web.Request) -> web.Response:
        self.named.append((await request.json())["model"])
        return web.json_response({"count": 7})

    async def _model(self, request: web.Request) -> web.Response:
        self.named.append(request.match_info["name"])
        return web.json_response({"id": self.named[-1]})

    @property
    def models(self) -> list[str]:
        return [body["model"] for _, body in self.requests]


class Front(Bench):
    """A gateway in front of engines, and the engines by name."""

    engines: dict[str, Engine]


Start = Callable[..., Awaitable[Front]]


@pytest.fixture
async def start(catalog: storage.Catalog) -> AsyncIterator[Start]:
    """Yield a function that starts a gateway in front of an engine per entry (name to served name),
    each in its own pool."""
    async with AsyncExitStack() as stack:

        async def make(default: str = "", **entries: str) -> Front:
            engines, configs = {}, []
            for price, (name, served) in enumerate(entries.items(), 1):
                engine = engines[name] = Engine()
                server = await stack.enter_async_context(TestServer(engine.application()))
                entry = ServedEntry(served_name=served, prices=Prices(completion=price))
                config = EndpointConfig(
                    url=str(server.make_url("")),
                    id=f"at-{name}",
                    pool="" if name == default else name,
                    models=(name,),
                    entries={name: entry},
                    metrics=False,
                )
                configs.append(config)
            settings = GatewaySettings(policy="passthrough")
            gateway, client = await stack.enter_async_context(running(catalog, settings, configs))
            front = Front(gateway, client, None, catalog)
            front.engines = engines
            return front

        yield make


async def test_entries_of_one_served_name_are_reached_by_their_own(start: Start) -> None:
    """Each call is recorded under the entry's name and price; the served name is a parameter."""
    front = await start(fast="org/qwen", slow="org/qwen")
    for name in ("fast", "slow", "slow"):
        assert (await front.chat("p", model=name, temperature=0)).status == 200
    assert {name: engine.models for name, engine in front.engines.items()} == {
        "fast": ["org/qwen"],
        "slow": ["org/qwen"] * 2,
    }
    rows = await front.rows(
        "select model, endpoint, params, count(*) as n, sum(cost_usd) as usd from calls "
        "group by all order by model"
    )
    params = '{"temperature":0,"model":"org/qwen"}'
    assert [tuple(row.values()) for row in rows] == [
        ("fast", "at-fast", params, 1, pytest.approx(30 / 1e6)),
        ("slow", "at-slow", params, 2, pytest.approx(2 * 2 * 30 / 1e6)),
    ]


async def test_a_served_name_of_one_entry_means_it(start: Start) -> None:
    """Clients of the endpoint use it; the call is recorded under the entry's name."""
    front = await start(fast="org/qwen", big="org/llama")
    assert (await front.chat("p", model="org/llama")).status == 200
    assert front.engines["big"].models == ["org/llama"]
    assert [row["model"] for row in await front.calls()] == ["big"]


async def test_a_served_name_of_several_entries_is_refused(start: Start) -> None:
    """The call is refused before anything is sent, as soon as a second entry is added; the response
    lists the names to use."""
    front = await start(fast="org/qwen")
    assert (await front.chat("p", model="org/qwen")).status == 200
    front.engines["fast"].requests.clear()
    entry = ServedEntry(served_name="org/qwen")
    slow = EndpointConfig(url="http://127.0.0.1:9", pool="slow", entries={"slow": entry})
    front.gateway.pools.add(slow)
    answer = await front.chat("p", model="org/qwen")
    assert answer.status == 400
    assert "several models are served as 'org/qwen'; name one of: fast, slow" in await answer.text()
    sizes = await front.client.post("/v1/tokenize", json={"model": "org/qwen", "prompt": "x"})
    assert sizes.status == 400
    assert not any(engine.requests for engine in front.engines.values())


async def test_the_default_pool_comes_first(start: Start) -> None:
    """A sweep's harness knows the measured model by its served name, even if another entry has that
    name."""
    front = await start("fast", judge="org/qwen", fast="org/qwen")
    assert (await front.chat("p", model="org/qwen")).status == 200
    assert front.engines["fast"].models == ["org/qwen"] and not front.engines["judge"].models
    other = await start("fast", fast="org/qwen", **{"org/qwen": "org/qwen"})
    assert (await other.chat("p", model="org/qwen")).status == 200
    assert not other.engines["fast"].models


async def test_requests_without_a_cache_are_sent_the_served_name(start: Start) -> None:
    """Such requests are token counts and an engine's description of a model; the list has the
    entries' names."""
    front = await start(fast="org/qwen", slow="org/qwen")
    body = {"model": "slow", "prompt": "x"}
    assert (await (await front.client.post("/v1/tokenize", json=body)).json())["count"] == 7
    assert (await (await front.client.get("/v1/models/slow")).json())["id"] == "org/qwen"
    assert front.engines["slow"].named == ["org/qwen"] * 2
    assert (await front.client.get("/v1/models/nobody")).status == 404
    listed = (await (await front.client.get("/v1/models")).json())["data"]
    assert [each["id"] for each in listed] == ["fast", "slow"]
    engines = await (await front.client.get("/engines", headers=BOSS)).json()
    assert [each["models"] for each in engines] == [["fast"], ["slow"]]


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"fast","n":1}',
        b'{"n": 1, "model": "fast"}',
        b'{"n":1,"model" : "fast"}',
        b'{"model":"fast","tools":[{"properties":{"model":"fast"}}]}',
        b'{"tools":[{"model":"fast"}],"model":"fast"}',
        b'{"text":"say \\"model\\":\\"fast\\"","model":"fast"}',
    ],
)
def test_only_the_bodys_own_model_is_replaced(body: bytes) -> None:
    found: dict[str, Any] = orjson.loads(with_model(body, "fast", "org/qwen"))
    assert found == orjson.loads(body) | {"model": "org/qwen"}
