"""A model under measurement: its engine and its gateway, started when first needed.

Other models that its sweep needs (a judge, a user, experts) are served beside it, behind the same
gateway; what serves two of them is started once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from tutti.storage import Catalog
from tutti.tasks.progress import StageLog, StageProgress
from tutti.tasks.serving import Model, checkpoint_id, claim_port, open_gateway, pick_models
from tutti.tasks.sweeps.plan import Library
from tutti.tasks.sweeps.run.engines import engines_of, replicas_of
from tutti.tasks.sweeps.run.runner import Services


class Bench:
    """A model under measurement. Its engine and gateway start when they are first needed.

    A sweep whose cells are all finished needs neither, so running it again costs no engine start.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        library: Library | None,
        catalog: Catalog,
        log: StageLog,
        port: int | None,
        engines: int = 1,
    ) -> None:
        """`models`: of the registry by their names; the first is the one that is measured, by so
        many `engines`."""
        self.model, self.library = next(iter(models.values())), library
        self.model_id = checkpoint_id(self.model)
        (self.engine, *self._others), self.served = engines_of(models, catalog)
        self._replicas = replicas_of(self.engine, engines, catalog)
        if port is not None:
            claim_port(port)  # a taken port is better said now than after the engine's start
        self._catalog, self._log, self._port = catalog, log, port
        self._open = contextlib.ExitStack()
        self._services: Services | None = None

    async def services(self) -> Services:
        """Engine, gateway and library, running. Raises what `open_bench` says."""
        if self._services is None:
            await self._log.run("engine", self._start)
            address, others = self.engine.address, tuple(self._others)
            replicas = [replica.address.url for replica in self._replicas]
            before = open_gateway(
                address, self.model, self._catalog, self._port, others, replicas=replicas
            )
            client = await asyncio.to_thread(self._open.enter_context, before)
            search_url = None if self.library is None else self.library.search_url
            also = (*self._replicas, *others)
            self._services = Services(self.engine, client, search_url, also)
        return self._services

    async def _start(self, _: StageProgress) -> None:
        for engine in (self.engine, *self._replicas, *self._others):
            self._open.callback(engine.stop)
            await asyncio.to_thread(engine.start)

    def close(self) -> None:
        """End gateway and engine, in that order, if they run."""
        self._open.close()


@contextlib.asynccontextmanager
async def open_bench(
    model_name: str,
    models: Path,
    library: Library | None,
    catalog: Catalog,
    log: StageLog,
    port: int | None = None,
    others: Sequence[str] = (),
    engines: int = 1,
) -> AsyncIterator[Bench]:
    """A registry's model, ready to be measured; what it started is ended with the block.

    `port` is the gateway's (any free one if None); `others` are models served beside it; `engines`
    how many of the model's own share the load. Raises RegistryError here, and when the services
    start EngineFailed, ModelsEnvironmentMissing, PortTaken or GatewayFailed.
    """
    entries = pick_models(models, (model_name, *others))
    bench = Bench(entries, library, catalog, log, port, engines)
    try:
        yield bench
    finally:
        bench.close()
