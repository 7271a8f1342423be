"""A gateway on loopback in front of an engine double, and a store to look into afterwards."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

import storage
from tasks.serving.engine import EngineAddress
from tasks.serving.gateway.app import Gateway
from tasks.serving.registry import Prices
from tests.serving.engine_double import EngineDouble

PRICES = Prices(prompt=2.0, cached=1.0, completion=10.0)


@pytest.fixture(autouse=True)
def _no_store_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUTTI_HOME", str(tmp_path / "not-this-one"))
    monkeypatch.delenv("TUTTI_CATALOG_URL", raising=False)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[storage.Catalog]:
    """The test's store, open."""
    with storage.open_catalog(storage.Home(tmp_path / "store")) as catalog:
        yield catalog


class Bench:
    """A running gateway: its client, the engine behind it and the store it records in."""

    def __init__(
        self, gateway: Gateway, client: Any, engine: EngineDouble, catalog: storage.Catalog
    ) -> None:
        self.gateway, self.client, self.engine = gateway, client, engine
        self.catalog = catalog

    async def chat(self, program: str | None = None, **fields: Any) -> Any:
        """POST a chat completion; `headers` and `path` may be given, the rest is its body."""
        headers = fields.pop("headers", {})
        path = fields.pop("path", "/v1/chat/completions")
        if program is not None:
            headers = {"X-Program-Id": program} | headers
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]} | fields
        return await self.client.post(path, json=body, headers=headers)

    async def begin(
        self, policy: str = "passthrough", limit: int = 1, cell: str = "cell:1"
    ) -> None:
        """Begin a cell."""
        order = {"cell_id": cell, "policy": policy, "limit": limit}
        answer = await self.client.put("/cell", json=order)
        assert answer.status == 200, await answer.text()

    async def release(self, program: str) -> bool:
        """Release a program; true if the gateway knew it."""
        answer = await self.client.post("/programs/release", json={"program_id": program})
        return bool((await answer.json())["released"])

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        """Flush, then ask the store."""
        answer = await self.client.post("/flush")
        assert answer.status == 200, await answer.text()
        return storage.query(sql, self.catalog.home)

    async def calls(self) -> list[dict[str, Any]]:
        """Every recorded call, in order of sending."""
        return await self.rows("select * from calls order by sent_at")


MakeBench = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def make_bench(catalog: storage.Catalog) -> AsyncIterator[MakeBench]:
    """Starts an engine double and a gateway before it."""
    async with AsyncExitStack() as running:

        async def make() -> Bench:
            engine = EngineDouble()
            server = await running.enter_async_context(TestServer(engine.application()))
            address = EngineAddress("engine:1", str(server.make_url("")).rstrip("/"), "m")
            gateway = Gateway(address, catalog, PRICES)
            # aiohttp's test server ends a handler whose client goes away; run_app must be told to.
            front = TestClient(TestServer(gateway.application()))
            client = await running.enter_async_context(front)
            engine.server = server
            return Bench(gateway, client, engine, catalog)

        yield make


@pytest.fixture
async def bench(make_bench: MakeBench) -> Bench:
    """A gateway and an engine as they are at the start of a sweep."""
    return await make_bench()
