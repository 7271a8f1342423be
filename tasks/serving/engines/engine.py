"""Start a server for a registry entry, wait until it answers, and guarantee that it is stopped.

The engine runs in the models environment (TUTTI_MODELS_PYTHON, else ``.venv-models``); the
platform talks to it over HTTP only. `ExternalEndpoint` has the same interface for an endpoint that
tutti does not start.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tutti.storage import Catalog, artifact_id
from tutti.tasks.platform import IS_SOURCE, models_python_path
from tutti.tasks.platform.gpus import GpuClaim, GpuLease, lease_gpus, read_inventory
from tutti.tasks.serving.engines.checking import Verdict, refuse_wrong_commands
from tutti.tasks.serving.engines.commands import (
    Build,
    Source,
    build_of,
    command_of,
    launch_of,
    require_device,
)
from tutti.tasks.serving.engines.control import reset_prefix_cache
from tutti.tasks.serving.engines.fitting import (
    CacheRecord,
    Place,
    estimated_cache,
    keep_cache,
    known_cache,
    place,
    refuse_what_does_not_fit,
    reported_cache,
)
from tutti.tasks.serving.engines.flags import Launch
from tutti.tasks.serving.engines.start_failures import explain, is_port_taken
from tutti.tasks.serving.engines.warm import (
    EngineAddress,
    WarmEngine,
    announce,
    is_ready,
    used,
    warm_engines,
)
from tutti.tasks.serving.errors import (
    EngineFailed,
    EngineLost,
    ModelsEnvironmentMissing,
    PortTaken,
    ServingError,
)
from tutti.tasks.serving.processes.process import (
    Child,
    answers,
    claim_port,
    status_of,
    stranger_at,
)
from tutti.tasks.serving.registry.models import Model, checkpoint_id, weights_folder
from tutti.tasks.serving.weights import read_weights

WATCH_S = 0.5
LLAMA = "llama.cpp"
PORT_TRIES = 3
"""Starts, each at another free port, before a port that others take is an error."""


def models_python() -> Path:
    """The Python of the models environment. Raises ModelsEnvironmentMissing with what to do."""
    python = models_python_path()
    if not python.is_file():
        creation = "run `make setup`" if IS_SOURCE else "`tutti doctor` shows how to create it"
        raise ModelsEnvironmentMissing(
            f"no models environment at {python}; {creation}, or set TUTTI_MODELS_PYTHON to "
            "a Python that has vLLM"
        )
    return python


def require_engines(models: Iterable[Model]) -> None:
    """Check that engines can be started, before minutes of other work. Raises RegistryError if
    weights are missing, ModelsEnvironmentMissing."""
    for model in models:
        if model.checkpoint is not None:
            read_weights(weights_folder(model))
            if model.engine is not None and model.engine.server != LLAMA:
                models_python()


def check_engines(engines: Iterable["Engine"]) -> list[Verdict]:
    """Check engines before tutti starts them: whether they fit, and their commands. Return the
    verdicts, including what this environment cannot check. Raises RegistryError with every refusal,
    ModelsEnvironmentMissing, ServingError."""
    every = list(engines)
    if not every:
        return []
    if any(engine.settings.server != LLAMA for engine in every):
        models_python()
    home = every[0].catalog.home
    refuse_what_does_not_fit([engine.launch for engine in every], read_inventory(home))
    return refuse_wrong_commands([engine.launch for engine in every], every[0].build, home)


def engine_line(name: str, model: Model, catalog: Catalog) -> str:
    """Return one line about an entry's engine: server, device, parsers, whether it fits, its
    estimated cache and that of its last run, what is unchecked.

    Nothing is started. Raises RegistryError for a refused command or weights that are incomplete or
    do not fit, ModelsEnvironmentMissing, ServingError.
    """
    build = build_of(models_python_path())
    launch = launch_of(name, model, source_of(model), build, catalog.home)
    return _line(identify(model, launch)[0], launch, build, catalog)


def engine_lines(engines: Iterable["Engine"]) -> dict[str, str]:
    """Return `engine_line` of engines that run at the same time, by name, with their GPUs. Nothing
    is started. Raises RegistryError also if they do not fit together."""
    every = list(engines)
    lines: dict[str, str] = {}
    for engine, each in zip(every, place_engines(every), strict=True):
        line = _line(engine.engine_id, engine.launch, engine.build, engine.catalog)
        gpus = f"; GPU {', '.join(str(gpu.index) for gpu in each.gpus)}" * bool(each.gpus)
        lines[each.name] = line + gpus
    return lines


def _line(engine_id: str, launch: Launch, build: Build, catalog: Catalog) -> str:
    home = catalog.home
    fits = refuse_what_does_not_fit([launch], read_inventory(home))
    verdicts = refuse_wrong_commands([launch], build, home)
    parsers = launch.parsers
    said = [f"{launch.settings.server} on {launch.device}"]
    said += [f"tools by {parsers.tools}"] * (parsers.tools is not None)
    said += [f"reasoning by {parsers.reasoning}"] * (parsers.reasoning is not None)
    said += [fit.text for fit in fits.values()]
    ran = known_cache(catalog, engine_id)
    estimated = estimated_cache(launch, read_inventory(home)) or ran.estimated
    cache = replace(ran, estimated=estimated).text
    said += [cache] * bool(cache)
    if not build.python.is_file() and launch.settings.server != LLAMA:
        said.append("not checked: the start, for the models environment is not here")
    said += [f"not checked: {what}" for verdict in verdicts for what in verdict.unchecked]
    return "; ".join(said)


def place_engines(engines: Iterable["Engine"]) -> list[Place]:
    """The GPUs of engines that run at the same time. Raises RegistryError if they do not fit."""
    every = list(engines)
    if not every:
        return []
    asked = [(engine.name, engine.wanted_gpus) for engine in every]
    return place(asked, read_inventory(every[0].catalog.home))


def source_of(model: Model) -> Source:
    """Return the weights of an entry in the form for a server. Raises RegistryError."""
    weights = read_weights(weights_folder(model))
    name = model.hub_id.partition("@")[0] if model.hub_id else weights.folder.name
    served = weights.files[0] if weights.form == "gguf" else weights.folder
    return Source(served, name, weights.config, weights.loaded_bytes)


def identify(
    model: Model, launch: Launch, trained_by: str | None = None
) -> tuple[str, dict[str, Any], str]:
    """Return the id of the engine that serves an entry, its content (weights, settings and
    context), and the id of its checkpoint. Raises WeightsError."""
    settings = launch.settings.identity(launch.device)
    content: dict[str, Any] = {"server": launch.settings.server, "settings": settings}
    content |= {"context": model.context_tokens}
    content |= {} if trained_by is None else {"trained_by": trained_by}
    checkpoint = checkpoint_id(model)
    return artifact_id("engine", content, [checkpoint]), content, checkpoint


class Engine:
    """One server. `start` blocks until it is ready; `stop` ends it and all its processes."""

    def __init__(
        self,
        name: str,
        model: Model,
        catalog: Catalog,
        port: int | None = None,
        trained_by: str | None = None,
    ) -> None:
        """`trained_by`: the training that changes its weights while it runs; such an engine does
        not have the model's own weights and serves no other entry."""
        if model.engine is None or model.checkpoint is None:
            raise EngineFailed(f"model {name!r} has no checkpoint for tutti to serve")
        self.name = name
        self.model = model
        self.entries = {name: model}
        """Entries of the registry that it serves; those besides its own ask it otherwise."""
        self.settings = model.engine
        self.trained_by = trained_by
        self.catalog = catalog
        self.port = claim_port(port)
        self._is_port_asked = port is not None
        self.build = build_of(models_python_path())
        self.launch = launch_of(name, model, source_of(model), self.build, catalog.home)
        self.engine_id, content, checkpoint = identify(model, self.launch, trained_by)
        catalog.enter_artifact(checkpoint, {"folder": str(weights_folder(model))})
        catalog.enter_artifact(self.engine_id, content, [checkpoint])
        self.kept = False
        """Whether other runs may find and use it once it runs (`tutti serve --keep`)."""
        self.warm: WarmEngine | None = None
        """The engine of another run that is used instead of one of its own."""
        self._child: Child | None = None
        self._leased = ExitStack()
        self.gpus: GpuLease | None = None
        self.on_wait: Callable[[str], None] = lambda text: None
        """Called with who has its GPUs while it waits for them."""
        self._stopped = threading.Event()

    @property
    def address(self) -> EngineAddress:
        url = f"http://127.0.0.1:{self.port}" if self.warm is None else self.warm.url
        return EngineAddress(self.engine_id, url, self.name)

    @property
    def wanted_gpus(self) -> int | tuple[int | str, ...] | None:
        """The GPUs to lease: those of its entry, or on a GPU as many as it computes on."""
        if self.settings.gpus is not None or self.launch.device == "cpu":
            return self.settings.gpus
        return self.settings.parallel if read_inventory(self.catalog.home).here else None

    def start(self) -> EngineAddress:
        """Take a kept engine of its id that is free and computes, or start the server and wait
        until it is healthy. Not for use in an event loop. Raises EngineFailed with the end of its
        log, GpuError, and ModelsEnvironmentMissing before anything is leased."""
        self._stopped.clear()
        if self._takes_warm():
            return self.address
        for left in reversed(range(PORT_TRIES)):
            try:
                return self._start()
            except PortTaken as error:
                if self._is_port_asked or not left:
                    raise EngineFailed(str(error)) from None
                self.port = claim_port(None)
        raise AssertionError("the last try returns or raises")

    def _takes_warm(self) -> bool:
        """Take a free kept engine of this id and name that computes; return whether one exists."""
        for warm in [] if self.kept else warm_engines(self.catalog, self.engine_id):
            with ExitStack() as stack:
                is_free = stack.enter_context(used(self.catalog, warm))
                is_mine = is_free and warm.served_name == self.name
                healthy = is_mine and answers(f"{warm.url}/health")
                if healthy and is_ready(warm, self.settings.server):
                    self.warm, self._leased = warm, stack.pop_all()
                    return True
        return False

    def _start(self) -> EngineAddress:
        require_device(self.launch, self.build)
        command = command_of(self.launch, self.build)
        python = [str(models_python())] if command.by_python else []
        argv = [*python, *command.program, *command.arguments, "--port", str(self.port)]
        try:
            if (gpus := self.wanted_gpus) is not None:
                claim = GpuClaim(gpus, work=f"engine {self.name}")
                leased = lease_gpus(self.catalog, claim, self.on_wait, self._stopped)
                self.gpus = self._leased.enter_context(leased)
            role = self.settings.server
            child = Child(role, argv, command.environment, self.catalog, self.gpus)
            self._child = child
            if self._stopped.is_set():  # by another thread, when there was no child to end yet
                raise EngineFailed(f"models.{self.name}: stopped before it was started")
            self._wait_ready(child)
            if (reported := reported_cache(self.address.url)) is not None:
                estimated = estimated_cache(self.launch, read_inventory(self.catalog.home))
                keep_cache(self.catalog, self.engine_id, CacheRecord(estimated, reported))
            if self.kept:
                kept = WarmEngine(**asdict(self.address), pid=child.pid)
                announce(self.catalog, child.key, kept)
        except BaseException:
            self._release()
            raise
        return self.address

    @property
    def cache(self) -> CacheRecord:
        """Return its KV cache as estimated, and as reported at its last start."""
        return known_cache(self.catalog, self.engine_id)

    def _wait_ready(self, child: Child) -> None:
        timeout_s = self.settings.timeout_s(self.launch.device)
        try:
            child.wait_ready(lambda: answers(f"{self.address.url}/health"), timeout_s)
        except ServingError as error:
            log, code = child.log_text(), child.poll()
            if code is not None and is_port_taken(log):
                raise self._port_taken("another process") from None
            why = explain(child.role, code, log)
            raise EngineFailed(f"models.{self.name}: {why}\n{error}") from None
        if (pid := stranger_at(self.port, child.pid)) is not None:
            raise self._port_taken(f"process {pid}")

    def _port_taken(self, who: str) -> PortTaken:
        return PortTaken(
            f"models.{self.name}: port {self.port} was taken by {who} while the engine started; "
            "run it again, or name a port that nobody else takes"
        )

    def stop(self) -> None:
        """Stop the engine if it runs or is being started by another thread, and release its GPUs;
        leave a kept engine to its keeper."""
        self._stopped.set()
        self._release()

    def _release(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None
        self._leased.close()
        self.gpus = self.warm = None

    async def watch(self) -> None:
        """Block while the engine runs. Raises EngineLost when it dies."""
        if self.warm is not None:
            return await self._watch_warm(self.warm)
        child = self._child
        if child is None:
            raise EngineFailed("the engine was not started")
        while (code := child.poll()) is None:
            await asyncio.sleep(WATCH_S)
        raise EngineLost(
            f"the engine died while serving (exit code {code}); {child.last_words()}\n"
            "Finished samples are kept; run the same command again to resume."
        )

    async def _watch_warm(self, warm: WarmEngine) -> None:
        """Watch a kept engine until its keeper ends; a slow answer does not count as an end."""
        while warm in await asyncio.to_thread(warm_engines, self.catalog, self.engine_id):
            await asyncio.sleep(WATCH_S)
        raise EngineLost(
            f"the engine at {warm.url}, which process {warm.pid} kept, has ended.\n"
            "Finished samples are kept; run the same command again to resume."
        )

    def reset(self) -> None:
        """Empty the prefix cache once no request runs. Raises EngineFailed."""
        reset_prefix_cache(self.address.url, self.settings.server)

    def __enter__(self) -> EngineAddress:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


log = logging.getLogger(__name__)


class ExternalEndpoint:
    """An external endpoint of `models.yaml`, which tutti does not start or stop."""

    def __init__(self, name: str, model: Model, catalog: Catalog) -> None:
        if model.endpoint is None:
            raise EngineFailed(f"model {name!r} has no endpoint")
        self.name, self.model, self.entries = name, model, {name: model}
        # Its identity is its address and name: its weights cannot be read.
        self.engine_id = checkpoint_id(model)
        detail = {"endpoint": model.endpoint, "served_name": self.served_name}
        catalog.enter_artifact(self.engine_id, detail, [])

    @property
    def served_name(self) -> str:
        """The model's name at the endpoint."""
        return self.model.served_name or self.name

    @property
    def address(self) -> EngineAddress:
        assert self.model.endpoint is not None, "checked when it was made"
        return EngineAddress(self.engine_id, self.model.endpoint, self.served_name)

    def start(self) -> EngineAddress:
        """Check that its key is set, and that /health answers if it is an engine with /metrics.
        Raises EngineFailed."""
        model, entry = self.model, f"models.{self.name}"
        if model.api_key_env is not None and not os.environ.get(model.api_key_env, "").strip():
            raise EngineFailed(f"{entry}.api_key_env: {model.api_key_env} is not set")
        url = (model.endpoint or "").rstrip("/").removesuffix(model.api_path)
        if model.metrics and status_of(f"{url}/metrics") == HTTPStatus.NOT_FOUND:
            log.warning(
                "%s.metrics: %s/metrics answers HTTP 404: calls are scheduled by count, and its "
                "cache and load are not measured; `metrics: false` says so, `max_calls` sets how "
                "many at a time",
                entry,
                url,
            )
        elif model.metrics and not answers(f"{url}/health"):
            raise EngineFailed(f"{entry}.endpoint: {url}/health does not answer")
        return self.address

    def stop(self) -> None:
        """Do nothing: tutti did not start it."""

    def reset(self) -> None:
        """Do nothing: a cell may find prefixes of the previous cell in its cache."""

    async def watch(self) -> None:
        """Wait forever: the gateway checks whether it answers."""
        await asyncio.Event().wait()


def engine_of(
    name: str, model: Model, catalog: Catalog, trained_by: str | None = None
) -> Engine | ExternalEndpoint:
    """Return the engine or endpoint of a registry's model; `trained_by` is as for `Engine`. Raises
    RegistryError, EngineFailed."""
    if model.endpoint is not None:
        return ExternalEndpoint(name, model, catalog)
    return Engine(name, model, catalog, trained_by=trained_by)
