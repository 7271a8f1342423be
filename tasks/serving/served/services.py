"""Serve models: the gateway and the retrieval service as child processes, and how long they run.

Models are served for a number of minutes, until a signal, or until an engine dies. With kept
engines the minutes count from their last use, by calls or by another run.
"""

import asyncio
import contextlib
import json
import os
import secrets
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from tutti.storage import Catalog, StoreFull
from tutti.tasks.platform import IMPORTS
from tutti.tasks.platform.gpus import GpuClaim, GpuLease, lease_gpus
from tutti.tasks.serving.engines.engine import Engine, ExternalEndpoint, engine_lines
from tutti.tasks.serving.engines.warm import IdleSleep, is_used
from tutti.tasks.serving.errors import GatewayFailed, ServingError
from tutti.tasks.serving.processes.process import Child, answers, claim_port
from tutti.tasks.serving.served.probing import QUESTION, TIMEOUT_S, Asker

if TYPE_CHECKING:
    from rich.console import Console

    from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig

START_TIMEOUT_S = 180.0
ORDER_TIMEOUT_S = 60.0
SEARCH_GPUS = "TUTTI_SEARCH_GPUS"


class GatewayClient:
    """Admin requests to a running gateway (blocking; call from a thread when in an event loop)."""

    def __init__(self, url: str, token: str) -> None:
        """`token` is the gateway's admin token."""
        self.url, self._token = url, token

    def begin_cell(
        self, cell_id: str, policy: str, options: Mapping[str, Any], concurrency: int
    ) -> None:
        """Reset the policy and start sampling for `cell_id`; its calls are recorded with its
        concurrency."""
        order: dict[str, Any] = {"cell_id": cell_id, "policy": policy, "options": dict(options)}
        order["concurrency"] = concurrency
        order["pool"] = ""  # only the measured model's pool; calls of a judge are not scheduled
        self._order("PUT", "/cell", order)

    def end_cell(self) -> None:
        self._order("DELETE", "/cell")

    def flush(self) -> None:
        self._order("POST", "/flush")

    def set_weights(self, engine_id: str, version: str) -> None:
        """Record the engine's calls from now on with this version."""
        self._order("PUT", "/weights", {"engine": engine_id, "version": version})

    def health(self) -> dict[str, Any]:
        return self._order("GET", "/health")

    def _order(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=ORDER_TIMEOUT_S) as answer:
                decoded: dict[str, Any] = json.load(answer)
                return decoded
        except urllib.error.HTTPError as error:
            message = error.read().decode(errors="replace")
            if error.code == 507:
                raise StoreFull(json.loads(message)["error"]) from None
            raise GatewayFailed(f"gateway refused {method} {path}: {message}") from None
        except (urllib.error.URLError, OSError) as error:
            raise GatewayFailed(f"gateway at {self.url} does not answer: {error}") from error


@contextmanager
def open_gateway(
    engine: Engine | ExternalEndpoint,
    catalog: Catalog,
    port: int | None = None,
    others: Sequence[Engine | ExternalEndpoint] = (),
    replicas: Sequence[str] = (),
) -> Iterator[GatewayClient]:
    """Run a gateway in front of `engine`, of `replicas` (URLs) that serve the same model, and of
    `others` that serve other models, for the block's duration. Raises GatewayFailed, PortTaken. The
    others are not sampled: a cell's engine metrics are those of the measured model."""
    # imported here because they import this package
    from tutti.tasks.serving.gateway.calls.access import ADMIN_VARIABLE, TOKENS_VARIABLE

    model = engine.model
    endpoint = _endpoint_of(engine)
    if model.endpoint is None:  # an engine that tutti started can load adapters
        endpoint = endpoint.model_copy(update={"models": ()})
    endpoints = [endpoint]
    for number, url in enumerate(replicas, 2):
        same = {"url": url, "id": f"{endpoint.id}#{number}"}
        endpoints.append(endpoint.model_copy(update=same))
    seen: Counter[str] = Counter()
    for other in others:
        seen[other.name] += 1
        own = _endpoint_of(other)
        apart: dict[str, Any] = {"pool": other.name, "metrics": False}
        if (number := seen[other.name]) > 1:
            apart["id"] = f"{own.id}#{number}"
        endpoints.append(own.model_copy(update=apart))
    # A sweep's programs are released explicitly; those of a killed sweep are not waited for.
    arguments = ["--policy", "passthrough", "--no-journal"]
    for each in endpoints:
        arguments += ["--engine", each.model_dump_json(exclude_defaults=True)]
    arguments += ["--record-tokens"] * model.record_tokens
    token = secrets.token_urlsafe()
    # Tokens in our environment are for a public gateway; this one is private.
    tokens = {ADMIN_VARIABLE: token, TOKENS_VARIABLE: ""}
    with _service("tutti.tasks.serving.gateway", arguments, tokens, catalog, port) as url:
        yield GatewayClient(url, token)


def _endpoint_of(engine: Engine | ExternalEndpoint) -> "EndpointConfig":
    """Return the engine's settings for the gateway, with every entry that it serves. Raises
    ValidationError."""
    from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig, ServedEntry

    at = engine.address
    config = EndpointConfig.of_model(
        engine.name, engine.model, at.url, at.engine_id, at.served_name
    )
    entries = {
        name: ServedEntry(served_name=at.served_name, prices=model.prices)
        for name, model in engine.entries.items()
    }
    return config.model_copy(update={"models": tuple(entries), "entries": entries})


@contextmanager
def retrieval_service(folder: Path, catalog: Catalog, port: int | None = None) -> Iterator[str]:
    """Run the retrieval service over the index in `folder`; yield its base URL. It leases
    TUTTI_SEARCH_GPUS GPUs, and sees no others. Raises GatewayFailed with the end of its log,
    NoSuchGpu, GpusBusy, GpuError."""
    asked = os.environ.get(SEARCH_GPUS, "").strip() or "0"
    if not asked.isdecimal():
        raise ServingError(f"{SEARCH_GPUS}: {asked!r} is not a number of GPUs")
    module, arguments = "tutti.tasks.retrieval.service", ["--index", str(folder)]
    with ExitStack() as stack:
        gpus = None
        if int(asked):
            claim = GpuClaim(int(asked), work="search")
            gpus = stack.enter_context(lease_gpus(catalog, claim, _say))
        environment = {SEARCH_GPUS: asked}
        service = _service(module, arguments, environment, catalog, port, gpus)
        yield stack.enter_context(service)


def _say(text: str) -> None:
    print(f"tutti: search: {text}", file=sys.stderr)


@contextmanager
def _service(
    module: str,
    arguments: list[str],
    environment: Mapping[str, str],
    catalog: Catalog,
    port: int | None,
    gpus: GpuLease | None = None,
) -> Iterator[str]:
    """Run a service as a supervised process for the block's duration; yields its base URL."""
    port = claim_port(port)
    url, role = f"http://127.0.0.1:{port}", module.removesuffix(".service").rpartition(".")[2]
    command = [sys.executable, "-m", module, *arguments, "--port", str(port)]
    environment = {"TUTTI_HOME": str(catalog.home), **IMPORTS, **environment}
    with Child(role, command, environment, catalog, gpus) as child:
        try:
            child.wait_ready(lambda: answers(f"{url}/health"), START_TIMEOUT_S)
        except ServingError as error:
            raise GatewayFailed(str(error)) from None
        yield url


@dataclass(frozen=True)
class FirstAnswer:
    """A model's answer to one call."""

    model: str
    text: str
    seconds: float


async def call_once(gateway_url: str, model: str) -> FirstAnswer:
    """Request a few tokens from `model` through the gateway. Raises ServingError if it refuses,
    does not answer, or answers without a choice."""
    started = time.monotonic()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)) as session:
        response = await Asker(session, gateway_url, model).ask(QUESTION, max_tokens=16)
    if response.failure or not response.body.get("choices"):
        why = response.failure or "an answer without a choice"
        raise ServingError(f"{model} answers no call: {why}")
    text = response.message.get("content") or ""
    return FirstAnswer(model, text, time.monotonic() - started)


def served_page(
    url: str, names: Mapping[str, str], answers: Sequence[FirstAnswer], search: str | None
) -> str:
    """Return Markdown on how to call the models by their names in the registry; `names` maps these
    to the served ones. `url` is the gateway's, with ``/v1``."""
    checked = {answer.model: f"{answer.seconds:.1f} s" for answer in answers}
    rows = [
        f"| {name} | `{served}` | {checked.get(name, 'not called')} |"
        for name, served in names.items()
    ]
    called = next(iter(names))
    body = json.dumps({"model": called, "messages": QUESTION})
    lines = [
        f"Base URL of OpenAI-compatible clients: `{url}`, on the machine that runs this flow.",
        "",
        "| model | served as | first call |",
        "|---|---|---|",
        *rows,
        "",
        f"    curl -s {url}/chat/completions -H 'Content-Type: application/json' -d '{body}'",
    ]
    if search is not None:
        question = json.dumps({"queries": ["largest elements of a heap"], "topk": 3})
        command = f"curl -s {search}/retrieve -H 'Content-Type: application/json' -d '{question}'"
        lines += ["", "Search over the standard library's documentation:", "", f"    {command}"]
    return "\n".join(lines)


def announce_served(names: str, address: Mapping[str, str | None], how: str) -> None:
    also = f"; search at {address['search']}" if address["search"] else ""
    words = f"{names} answers at {address['url']}{also}"
    print(json.dumps({"model": names, **address}) if how == "json" else words, flush=True)


def show_engines(console: "Console", engines: Iterable[Engine]) -> None:
    """Print the engines to be started, one per line: server, device, fit and GPUs. Raises
    RegistryError if they do not fit, or a command is refused."""
    for name, line in engine_lines(engines).items():
        console.print(f"engine {name}: {line}", markup=False, highlight=False)


SHOW_S = 1.0


async def serve_for(
    engines: Sequence[Engine | ExternalEndpoint],
    minutes: float,
    stopped: asyncio.Event,
    show: Callable[[float, float], None],
    is_busy: Callable[[], bool] | None = None,
) -> None:
    """Wait until `minutes` have passed (0: no limit) or `stopped` is set. With `is_busy`, called
    each second on a thread, wait until `minutes` have passed since it last was true. `show` is
    called with the minutes and the limit. Raises EngineFailed when an engine dies."""
    waiting = [asyncio.create_task(engine.watch()) for engine in engines]
    waiting.append(asyncio.create_task(_wait(minutes, stopped, show, is_busy)))
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    for each in done:
        each.result()


async def _wait(
    minutes: float,
    stopped: asyncio.Event,
    show: Callable[[float, float], None],
    is_busy: Callable[[], bool] | None,
) -> None:
    started = time.monotonic()
    while not stopped.is_set():
        if is_busy is not None and await asyncio.to_thread(is_busy):
            started = time.monotonic()
        served = (time.monotonic() - started) / 60
        left_s = (minutes - served) * 60
        if minutes:
            show(min(served, minutes), minutes)
            if left_s <= 0:
                return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), min(SHOW_S, left_s) if minutes else SHOW_S)


class EngineUse:
    """The use of engines that a keeper serves."""

    def __init__(
        self,
        catalog: Catalog,
        gateway: GatewayClient,
        engines: Sequence[Engine | ExternalEndpoint],
    ) -> None:
        self._catalog, self._gateway = catalog, gateway
        started = [each for each in engines if isinstance(each, Engine)]
        self._urls = [each.address.url for each in started]
        # vLLM alone has the calls for it
        can_sleep = [each for each in started if each.settings.sleep]
        self._sleep = IdleSleep(
            [each.address.url for each in can_sleep if each.settings.server == "vllm"]
        )
        self._calls = -1

    def is_busy(self) -> bool:
        """Whether a run uses one now, or a call ran since the last question; by that they sleep and
        wake. Not for use in an event loop. Raises GatewayFailed, StoreError, EngineFailed."""
        state = self._gateway.health()
        calls, self._calls = self._calls, state["recorded"] + state["unrecorded"]
        busy = bool(state["held"] or state["running"]) or calls != self._calls
        busy = busy or any(is_used(self._catalog, url) for url in self._urls)
        self._sleep.follow(busy)
        return busy
