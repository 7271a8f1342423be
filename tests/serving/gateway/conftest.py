"""Fixtures: a gateway in front of engines that send raw bytes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.serving.conftest import QUICK_S, Bench, running
from tests.serving.gateway.raw_engine import RawEngine, raw_engine
from tutti import storage
from tutti.tasks.serving.gateway.calls.access import Access
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint
from tutti.tasks.serving.gateway.settings import GatewaySettings

MakeRaw = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def make_raw(
    catalog: storage.Catalog, quick: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MakeRaw]:
    """Yield a function that starts engines that send raw bytes and a gateway in front of them whose
    tasks of each second run continuously; settings are given by name. `bench.engine` is the first
    engine."""
    monkeypatch.setattr(Endpoint, "next_probe_s", lambda _: QUICK_S)
    async with AsyncExitStack() as stack:

        async def make(
            *engines: RawEngine,
            access: Access | None = None,
            journal: Path | None = None,
            endpoint: dict[str, Any] | None = None,
            **settings: Any,
        ) -> Bench:
            ours = list(engines) or [await stack.enter_async_context(raw_engine())]
            chosen = replace(GatewaySettings(policy="passthrough", sample_s=QUICK_S), **settings)
            configs = [
                engine.endpoint(f"engine:{number}", **(endpoint or {}))
                for number, engine in enumerate(ours, 1)
            ]
            gateway, client = await stack.enter_async_context(
                running(catalog, chosen, configs, access, journal)
            )
            return Bench(gateway, client, ours[0], catalog)

        yield make


@pytest.fixture
async def raw(make_raw: MakeRaw) -> Bench:
    return await make_raw()


@pytest.fixture
async def engines() -> AsyncIterator[tuple[RawEngine, RawEngine]]:
    async with raw_engine() as one, raw_engine() as other:
        yield one, other
