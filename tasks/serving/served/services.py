"""Start the gateway and the retrieval service as supervised children, and talk to the gateway."""

import json
import os
import secrets
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti.storage import Catalog, StoreFull
from tutti.tasks.gpus import GpuClaim, GpuLease, lease_gpus
from tutti.tasks.project import IMPORTS
from tutti.tasks.serving.engines.engine import Engine, ExternalEndpoint
from tutti.tasks.serving.errors import GatewayFailed, ServingError
from tutti.tasks.serving.processes.process import Child, answers, claim_port

if TYPE_CHECKING:
    from tutti.tasks.serving.gateway.endpoints.endpoint import EndpointConfig

START_TIMEOUT_S = 180.0
ORDER_TIMEOUT_S = 60.0
SEARCH_GPUS = "TUTTI_SEARCH_GPUS"
"""GPUs that a search service takes; none where it is not set."""


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
        """Calls that the engine is sent from now on are recorded with this version."""
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
    `others` that serve other models, for the block's duration. Raises GatewayFailed, PortTaken.

    The others are not sampled: a cell's engine metrics are those of the measured model.
    """
    # imported here because they import this package
    from tutti.tasks.serving.gateway.calls.access import ADMIN_VARIABLE, TOKENS_VARIABLE

    port, model = claim_port(port), engine.model
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
    arguments += ["--port", str(port)]
    child = ServiceChild("gateway", "tutti.tasks.serving.gateway", arguments, tokens)
    with _service(child, port, catalog) as url:
        yield GatewayClient(url, token)


def _endpoint_of(engine: Engine | ExternalEndpoint) -> "EndpointConfig":
    """The engine as the gateway takes it, with every entry that it serves. Raises
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
    """Run the retrieval service over the index in `folder`; yields its base URL.

    It leases as many GPUs as TUTTI_SEARCH_GPUS says, and sees no other. Raises GatewayFailed with
    its last words, NoSuchGpu, GpusBusy, GpuError.
    """
    asked = os.environ.get(SEARCH_GPUS, "").strip() or "0"
    if not asked.isdecimal():
        raise ServingError(f"{SEARCH_GPUS}: {asked!r} is not a number of GPUs")
    role, module = "retrieval", "tutti.tasks.retrieval.service"
    arguments = ["--index", str(folder), "--port", str(port := claim_port(port))]
    with ExitStack() as stack:
        gpus = None
        if int(asked):
            claim = GpuClaim(int(asked), work="search")
            gpus = stack.enter_context(lease_gpus(catalog, claim, _say))
        child = ServiceChild(role, module, arguments, {SEARCH_GPUS: asked}, gpus)
        yield stack.enter_context(_service(child, port, catalog))


def _say(text: str) -> None:
    print(f"tutti: search: {text}", file=sys.stderr)


@dataclass(frozen=True)
class ServiceChild:
    """A service that runs as a process of its own."""

    role: str
    module: str
    arguments: list[str]
    environment: Mapping[str, str]
    gpus: GpuLease | None = None


@contextmanager
def _service(service: ServiceChild, port: int, catalog: Catalog) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", service.module, *service.arguments]
    environment = {"TUTTI_HOME": str(catalog.home), **IMPORTS, **service.environment}
    with Child(service.role, command, environment, catalog, service.gpus) as child:
        try:
            child.wait_ready(lambda: answers(f"{url}/health"), START_TIMEOUT_S)
        except ServingError as error:
            raise GatewayFailed(str(error)) from None
        yield url
