"""A model under measurement: its engine and its gateway, started when first needed.

Other models that its sweep needs (a judge, a user, experts) are served beside it, behind the same
gateway; what serves two of them is started once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial

from tutti.storage import Catalog
from tutti.tasks.progress import StageLog, StageProgress, stage
from tutti.tasks.serving import Model
from tutti.tasks.serving.engines import Engine, ExternalEndpoint, check_engines, place_engines
from tutti.tasks.serving.processes import claim_port
from tutti.tasks.serving.served import GatewayClient, open_gateway
from tutti.tasks.sweeps.plan import (
    Adapter,
    CellConfig,
    SearchService,
    Serving,
    TaskSet,
    named_index,
    serving_of,
)
from tutti.tasks.sweeps.run.first_call import call_endpoints
from tutti.tasks.sweeps.spec import STDLIB, Suite


@dataclass(frozen=True)
class Services:
    """What a sweep needs running."""

    engine: Engine | ExternalEndpoint
    gateway: GatewayClient
    search_url: str | None
    """None where the tasks have nothing to search."""
    others: tuple[Engine | ExternalEndpoint, ...] = ()
    """Replicas of the measured engine, and what serves judge, user and experts."""


@stage(name="engine", tags=("engine",))
async def start_engines(
    progress: StageProgress, serving: Serving, stack: contextlib.ExitStack
) -> None:
    """Start the engines of a bench; `stack` stops each, also one whose start fails.

    Their GPUs and commands are checked before the first is started. While cards are waited for, the
    progress says who has them. A cache that is much smaller or larger than was estimated is
    remarked upon.
    """
    place_engines(serving.started)
    await asyncio.to_thread(check_engines, serving.started)
    for engine in serving.every:
        stack.callback(engine.stop)
        if isinstance(engine, Engine):
            engine.on_wait = partial(_say_waiting, progress)
        await asyncio.to_thread(engine.start)
        if isinstance(engine, Engine) and engine.cache.remark:
            progress.console.print(f"[yellow]  {engine.name}: {engine.cache.text}[/]")


def _say_waiting(progress: StageProgress, text: str) -> None:
    """A line that stays: the wait may take an hour."""
    progress.console.print(text, markup=False)


class Bench:
    """A model under measurement. Its engine and gateway start when they are first needed.

    A sweep whose cells are all finished needs neither, so running it again costs no engine start.
    """

    def __init__(
        self,
        serving: Serving,
        library: SearchService | None,
        catalog: Catalog,
        log: StageLog,
        port: int | None,
    ) -> None:
        self.serving, self.library = serving, library
        if port is not None:
            claim_port(port)  # a taken port is better said now than after the engine's start
        self._catalog, self._log, self._port = catalog, log, port
        self._open = contextlib.ExitStack()
        self._services: Services | None = None
        self._was_called = False

    def config(self, suite: Suite, task_set: TaskSet, adapter: Adapter | None = None) -> CellConfig:
        """What the cells of `suite` are measured with here."""
        searches = suite.benchmark == STDLIB or named_index(suite) is not None
        searched = self.library if searches else None
        index_id = None if searched is None else searched.index_id
        return self.serving.config(suite, task_set, index_id, adapter)

    async def services(self) -> Services:
        """Engine, gateway and library, running. Raises what `open_bench` says."""
        if self._services is None:
            serving = self.serving
            await start_engines(self._log, serving, self._open)
            replicas = [replica.address.url for replica in serving.replicas]
            before = open_gateway(
                serving.engine, self._catalog, self._port, serving.others, replicas=replicas
            )
            client = await asyncio.to_thread(self._open.enter_context, before)
            search_url = None if self.library is None else self.library.search_url
            also = (*serving.replicas, *serving.others)
            self._services = Services(serving.engine, client, search_url, also)
        return self._services

    async def services_for(self, suite: Suite) -> Services:
        """`services`, after one call to each endpoint as the first suite asks it.

        Raises EngineFailed where one does not answer.
        """
        services = await self.services()
        if not self._was_called:
            await call_endpoints(self._log, self.serving, suite, services.gateway.url)
            self._was_called = True
        return services

    async def restart(self) -> None:
        """End gateway and engines; what needs them next starts them again."""
        self._services, self._was_called = None, False
        await asyncio.to_thread(self._open.close)

    def close(self) -> None:
        """End gateway and engine, in that order, if they run."""
        self._open.close()


@contextlib.asynccontextmanager
async def open_bench(
    models: Mapping[str, Model],
    library: SearchService | None,
    catalog: Catalog,
    log: StageLog,
    port: int | None = None,
    engines: int = 1,
) -> AsyncIterator[Bench]:
    """A registry's models, the first ready to be measured; what it started ends with the block.

    `port` is the gateway's (any free one if None), `engines` how many engines of the measured model
    share its load. Raises RegistryError here, and when the services start EngineFailed,
    ModelsEnvironmentMissing, PortTaken or GatewayFailed.
    """
    async with bench_of(serving_of(models, catalog, engines), library, catalog, log, port) as bench:
        yield bench


@contextlib.asynccontextmanager
async def bench_of(
    serving: Serving,
    library: SearchService | None,
    catalog: Catalog,
    log: StageLog,
    port: int | None = None,
) -> AsyncIterator[Bench]:
    """The bench of what serves some models; otherwise as `open_bench`."""
    bench = Bench(serving, library, catalog, log, port)
    try:
        yield bench
    finally:
        bench.close()
