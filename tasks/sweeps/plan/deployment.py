"""Models under one gateway: their engines and endpoints, started when first needed.

In: entries of the registry, the first of which is measured. Other models of a sweep (a judge, a
user, experts) are served beside it; an engine for two of them is started once.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tutti.storage import Catalog, content_hash
from tutti.tasks.agents.models import (
    PASSING,
    CallOrigin,
    Client,
    ContextExceeded,
    GatewayModel,
    ModelCallFailed,
    Retry,
    sampling_of,
)
from tutti.tasks.platform.progress import StageLog, StageProgress, stage
from tutti.tasks.serving import EngineFailed, RegistryError
from tutti.tasks.serving.engines import (
    Engine,
    ExternalEndpoint,
    check_engines,
    engine_of,
    place_engines,
)
from tutti.tasks.serving.processes import claim_port
from tutti.tasks.serving.registry import Model, checkpoint_id
from tutti.tasks.serving.served import GatewayClient, not_listed, open_gateway
from tutti.tasks.sweeps.plan.config import Adapter, CellConfig, engine_count
from tutti.tasks.sweeps.plan.library import SearchService, named_index
from tutti.tasks.sweeps.plan.roles import Roles, ServedModel, roles_of
from tutti.tasks.sweeps.plan.task_set import TaskSet
from tutti.tasks.sweeps.spec import Suite

Served = Engine | ExternalEndpoint
NONE_TRAINED: Mapping[str, str] = {}
WAIT_S = 120.0  # an endpoint that scales to zero needs a minute to come back
TOKENS = 16  # fewer are refused by some providers
QUESTION = {"role": "user", "content": "Reply with the word ready."}
BUSY = (429, 503, 529)
"""Answers of an endpoint that exists: the run waits for it as for any other."""
NO_MESSAGE = 200  # the status of an answer that is cut off
TRIES = 5  # a second apart and more: a server that has just started may need some seconds
RETRY = Retry(
    dict.fromkeys({NO_MESSAGE, *PASSING}.difference(BUSY), TRIES), first_s=1.0, deadline_s=WAIT_S
)


class Deployment:
    """The engines and endpoints of a sweep's models, as an async context manager that ends what it
    started.

    Nothing is started before `start`: a sweep whose cells are all finished costs no engine start.
    """

    port: int | None = None
    """The gateway's; any free one if None."""

    def __init__(
        self,
        models: Mapping[str, Model],
        catalog: Catalog,
        log: StageLog | None = None,
        search: SearchService | None = None,
        engines: int = 1,
        trained_by: Mapping[str, str] = NONE_TRAINED,
    ) -> None:
        """`search`: what the tasks search; `engines`: number of the measured model's engines, which
        share its load; `trained_by`: entries whose weights change, and the training that changes
        them.

        Raises RegistryError for several engines of a model with an external endpoint.
        """
        self._catalog, self._log, self._search = catalog, log or StageLog(), search
        engines_by_id: dict[str, Served] = {}
        self.served: dict[str, ServedModel] = {}
        for name, model in models.items():
            new = engine_of(name, model, catalog, trained_by.get(name))
            engine = engines_by_id.setdefault(new.engine_id, new)
            engine.entries[name] = model
            self.served[name] = ServedModel(name, engine.engine_id, model)
        self.engine, *others = engines_by_id.values()
        replicas = _replicas_of(self.engine, engines, catalog)
        self.others = [*replicas, *(e for o in others for e in (o, *_replicas_of(o, 1, catalog)))]
        """Replicas of the measured engine, and what serves judge, user and experts."""
        self._replicas = replicas
        self._open = contextlib.ExitStack()
        self._gateway: GatewayClient | None = None
        self._was_called = False

    async def __aenter__(self) -> "Deployment":
        """Raises PortTaken, now rather than after the engine's start."""
        if self.port is not None:
            claim_port(self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End gateway and engines, in that order, if they run."""
        self._open.close()

    @staticmethod
    def check(models: Mapping[str, Model]) -> None:
        """Check that models measured in one sweep have distinct cells. Raises RegistryError."""
        known: dict[str, str] = {}
        for name, model in models.items():
            if model.endpoint is None:
                continue  # an engine's served name is its entry's
            content = content_hash([checkpoint_id(model), model.asked])
            if content in known:
                raise RegistryError(
                    f"models.{name} and models.{known[content]} are one model: the same endpoint, "
                    "served name and request settings; name one of them in the sweep"
                )
            known[content] = name

    @property
    def model(self) -> Model:
        """The registry's entry of the measured model."""
        return self.served[self.engine.name].model

    @property
    def every(self) -> list[Served]:
        """All engines and endpoints that must run."""
        return [self.engine, *self.others]

    @property
    def started(self) -> list[Engine]:
        """The engines among them that tutti starts."""
        return [engine for engine in self.every if isinstance(engine, Engine)]

    @property
    def gateway(self) -> GatewayClient:
        """The gateway, which `start` has started."""
        assert self._gateway is not None, "the deployment is not started"
        return self._gateway

    @property
    def search_url(self) -> str | None:
        """The URL of the search service; None if the tasks have nothing to search."""
        return None if self._search is None else self._search.search_url

    def keep(self) -> None:
        """Let other runs use the engines once they run."""
        for engine in self.started:
            engine.kept = True

    def config(self, suite: Suite, task_set: TaskSet, adapter: Adapter | None = None) -> CellConfig:
        """Return the inputs of the cells of `suite` here. Raises SuiteError for its agent's
        file."""
        searches = suite.request is not None or named_index(suite) is not None
        served_name = self.engine.address.served_name
        own = CellConfig(
            task_set,
            self.engine.engine_id,
            checkpoint_id(self.model),
            served_name,
            self._search.index_id if searches and self._search is not None else None,
            self.model,
            roles_of(suite, self.served),
            self.engine.name,
            served_name in self.served.keys() - {self.engine.name},
        )
        if adapter is None:
            return own
        return replace(
            own, model_id=adapter.adapter_id, served_name=adapter.name, entry_name=adapter.name
        )

    async def start(self) -> GatewayClient:
        """Start engines and gateway, unless they run.

        Raises EngineFailed, ModelsEnvironmentMissing, GatewayFailed.
        """
        if self._gateway is None:
            await start_engines(self._log, self, self._open)
            replicas = [replica.address.url for replica in self._replicas]
            roles = self.others[len(replicas) :]
            opened = open_gateway(self.engine, self._catalog, self.port, roles, replicas=replicas)
            self._gateway = await asyncio.to_thread(self._open.enter_context, opened)
        return self._gateway

    async def start_for(self, suite: Suite) -> GatewayClient:
        """Run `start`, then call each endpoint once as the first suite does.

        Raises EngineFailed if one does not answer.
        """
        gateway = await self.start()
        if not self._was_called:
            await call_endpoints(self._log, self, suite)
            self._was_called = True
        return gateway

    async def restart(self) -> None:
        """End gateway and engines; the next use starts them again."""
        self._gateway, self._was_called = None, False
        await asyncio.to_thread(self._open.close)


@stage(name="engine", tags=("engine",))
async def start_engines(
    progress: StageProgress, deployment: Deployment, stack: contextlib.ExitStack
) -> None:
    """Start the engines; `stack` stops each, including one whose start fails.

    Their GPUs and commands are checked before the first is started. While the engines wait for
    GPUs, the progress shows the holders. If a cache is much smaller or larger than estimated, a
    notice is printed.
    """
    place_engines(deployment.started)
    await asyncio.to_thread(check_engines, deployment.started)
    for engine in deployment.every:
        stack.callback(engine.stop)
        if isinstance(engine, Engine):  # a line that stays: the wait may take an hour
            engine.on_wait = partial(progress.console.print, markup=False)
        await asyncio.to_thread(engine.start)
        if isinstance(engine, Engine) and engine.cache.remark:
            progress.console.print(f"[yellow]  {engine.name}: {engine.cache.text}[/]")


@stage(name="first call", tags=("engine",))
async def call_endpoints(progress: StageProgress, deployment: Deployment, suite: Suite) -> None:
    """Call each external endpoint once, in the same way as the suite's attempts, so that a wrong
    key, name or field is known after seconds, not after every sample has failed.

    Prints a warning for a model that its endpoint does not list. Raises EngineFailed.
    """
    endpoints = {e.engine_id for e in deployment.every if isinstance(e, ExternalEndpoint)}
    outside = [n for n, each in deployment.served.items() if each.engine_id in endpoints]
    async with Client(deployment.gateway.url) as client:
        for done, name in enumerate(outside):
            progress.show(done, len(outside), name)
            await _call(client, deployment, name, suite)
            if words := await not_listed(deployment.served[name].model):
                line = f"  models.{name}: {words}; what answers may be another model"
                progress.console.print(line, style="yellow", markup=False)


async def _call(client: Client, deployment: Deployment, name: str, suite: Suite) -> None:
    served = deployment.served[name]
    is_measured = name == deployment.engine.name
    # Judge, user and experts are called warm.
    temperature = suite.sampling.temperature if is_measured else Roles.WARM
    sampling = sampling_of(served.model, temperature, TOKENS, 0)
    origin = CallOrigin(f"first-call-{uuid.uuid4().hex[:12]}", "")
    model = GatewayModel(client, served.name, origin, sampling, RETRY)
    try:
        async with asyncio.timeout(WAIT_S):
            await model.complete([QUESTION], (), 0)
    except ContextExceeded:
        return  # it has answered; whether the tasks fit is decided by each attempt
    except (TimeoutError, ModelCallFailed) as error:
        what = f"did not answer within {WAIT_S:.0f} s"
        if isinstance(error, ModelCallFailed):
            if error.status in BUSY:
                return
            again = f" and {TRIES - 1} tries after it" if error.status in RETRY.tries else ""
            what = f"failed its first call{again}: {error}"
        raise EngineFailed(
            f"models.{name} {what}\nNothing was measured on it. Correct its entry, its key or its "
            f"server (`tutti models --check` tests it), then run the same command again."
        ) from error
    finally:
        with contextlib.suppress(ModelCallFailed):  # its lease at the gateway ends by itself
            await model.release()


def _replicas_of(engine: Served, count: int, catalog: Catalog) -> list[Engine]:
    """Return the further engines of the model besides `engine`. Raises RegistryError for an
    external endpoint."""
    if isinstance(engine, Engine) and engine.trained_by is None:
        count = engine_count(engine.model, count)  # a training changes the weights of one engine
    if count == 1:
        return []
    if isinstance(engine, ExternalEndpoint):
        raise RegistryError(
            f"models.{engine.name} is served by others: `execution.engines` is for models "
            "with a `checkpoint`"
        )
    return [Engine(engine.name, engine.model, catalog) for _ in range(count - 1)]
