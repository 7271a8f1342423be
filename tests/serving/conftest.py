"""Fixtures: a gateway on loopback in front of a fake engine, and a store to check afterwards."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from tests.conftest import NewCatalog
from tests.serving.engine_double import EngineDouble
from tutti import storage
from tutti.tasks.serving.gateway import app as gateway_app
from tutti.tasks.serving.gateway.app import Gateway
from tutti.tasks.serving.gateway.calls.access import Access
from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.settings import GatewaySettings
from tutti.tasks.serving.registry.models import Prices

ADMIN = "the-admins-token"
BOSS = {"Authorization": f"Bearer {ADMIN}"}
"""For a gateway without tokens of its own: orders need one all the same."""
PRICES = Prices(prompt=2.0, cached=1.0, completion=10.0)
HANG_S = 60.0  # no more than the end of what would never happen
QUICK_S = 0.03  # between rounds and samples: what takes seconds in life


@pytest.fixture(autouse=True)
def _no_store_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "not-this-one"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)


@pytest.fixture
def catalog(tmp_path: Path, new_catalog: NewCatalog) -> Iterator[storage.Catalog]:
    with new_catalog(storage.Home(tmp_path / "store")) as catalog:
        yield catalog


async def until(condition: Callable[[], object], what: str) -> None:
    """Poll until `condition()` is true, instead of sleeping."""
    try:
        async with asyncio.timeout(HANG_S):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"never happened: {what}") from None


def assert_empty(gateway: Gateway) -> None:
    """Check that no call has a hold, is in flight or is booked."""
    assert gateway.in_flight == {}
    for pool in gateway.pools.by_name.values():
        ledger = pool.scheduler.ledger
        assert ledger.waiting == {}
        for program in ledger.programs.values():
            assert not program.running and not program.waiting, program
        for engine in ledger.engines.values():
            assert engine.running == {}, engine
            if not ledger.programs:
                booked = pool.scheduler.policy.booked_tokens(engine)
                assert booked == 0, f"{pool.scheduler.policy.name} keeps {booked} tokens"


async def released(gateway: Gateway) -> None:
    await until(lambda: not gateway.in_flight, "all calls are over")
    for pool in gateway.pools.by_name.values():
        for name in list(pool.scheduler.ledger.programs):
            gateway.release(pool, name)
        assert pool.scheduler.ledger.programs == {}
    assert_empty(gateway)


@asynccontextmanager
async def running(
    catalog: storage.Catalog,
    settings: GatewaySettings,
    endpoints: list[EndpointConfig],
    access: Access | None = None,
    journal: Path | None = None,
) -> AsyncIterator[tuple[Gateway, aiohttp.ClientSession]]:
    gateway = Gateway(catalog, settings, access or Access("", admin_token=ADMIN), journal)
    try:
        port = await gateway.start("127.0.0.1", 0, endpoints)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            ours = list(gateway.pools.all_endpoints())
            await until(lambda: all(e.engine.accepting for e in ours), "the engines take calls")
            yield gateway, client
    finally:
        await gateway.stop(grace_s=0.0)


class Bench:
    """A running gateway with its client, the engine behind it and its store."""

    def __init__(
        self,
        gateway: Gateway,
        client: aiohttp.ClientSession,
        engine: Any,
        catalog: storage.Catalog,
    ) -> None:
        self.gateway, self.client, self.engine = gateway, client, engine
        self.catalog = catalog

    async def chat(self, program: str | None = None, **fields: Any) -> Any:
        """POST a chat completion; `headers` and `path` are options, the other arguments are its
        body."""
        headers = fields.pop("headers", {})
        path = fields.pop("path", "/v1/chat/completions")
        if program is not None:
            headers = {"X-Program-Id": program} | headers
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]} | fields
        return await self.client.post(path, json=body, headers=headers)

    async def begin(
        self, policy: str = "passthrough", limit: int = 1, cell: str = "cell:1", **more: Any
    ) -> None:
        order = {"cell_id": cell, "policy": policy, "limit": limit} | more
        answer = await self.client.put("/cell", json=order, headers=BOSS)
        assert answer.status == 200, await answer.text()

    async def release(self, program: str) -> bool:
        answer = await self.client.post("/programs/release", json={"program_id": program})
        return bool((await answer.json())["released"])

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        answer = await self.client.post("/flush", headers=BOSS)
        assert answer.status == 200, await answer.text()
        return storage.query(sql, self.catalog.home)

    async def calls(self) -> list[dict[str, Any]]:
        return await self.rows("select * from calls order by sent_at")

    @property
    def programs(self) -> dict[str, Any]:
        (pool,) = self.gateway.pools.by_name.values()
        return pool.scheduler.ledger.programs

    @property
    def held(self) -> list[str]:
        (pool,) = self.gateway.pools.by_name.values()
        return [call.program.program_id for call in pool.scheduler.ledger.waiting.values()]

    async def until_held(self, *names: str) -> None:
        await until(lambda: self.held == list(names), f"{names} are held, not {self.held}")


MakeBench = Callable[..., Awaitable[Bench]]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_app, "ROUND_S", QUICK_S)


@pytest.fixture
async def make_bench(catalog: storage.Catalog) -> AsyncIterator[MakeBench]:
    """Yield a function that starts a fake engine and a gateway in front of it, with settings by
    name."""
    async with AsyncExitStack() as stack:

        async def make(access: Access | None = None, **settings: Any) -> Bench:
            engine = EngineDouble()
            engine.server = TestServer(engine.application())
            await stack.enter_async_context(engine.server)
            url = str(engine.server.make_url("")).rstrip("/")
            endpoint = EndpointConfig(url=url, id="engine:1", prices=PRICES)
            chosen = replace(GatewaySettings(policy="passthrough"), **settings)
            gateway, client = await stack.enter_async_context(
                running(catalog, chosen, [endpoint], access)
            )
            return Bench(gateway, client, engine, catalog)

        yield make


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    return await make_bench()
