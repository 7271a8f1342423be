"""`tutti gateway`: the program-aware gateway in front of engines, until Ctrl-C.

In: engines by URL, models of the registry (those with a checkpoint are started first), a policy.
Out: its address and how an agent uses it. Ctrl-C or SIGTERM ends it and its engines, with code 0.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from tutti import storage
from tutti.cli.base.failures import UsageError, message_of
from tutti.cli.base.verbs import AsJson, ModelsFile, verb
from tutti.tasks import serving
from tutti.tasks.serving import engines as own_engines
from tutti.tasks.serving import gateway as gateways
from tutti.tasks.serving import processes
from tutti.tasks.serving import registry as models
from tutti.tasks.serving.gateway import GatewaySettings

GUIDE = """\
gateway on {url}: policy {policy}; {engines}
  an agent's base URL   {url}/p/PROGRAM/v1 (Anthropic's clients: without /v1)
  or by a header        {url}/v1 with X-Program-Id: PROGRAM
  models                {models}
  when it is over       POST {url}/programs/release {{"program_id": "PROGRAM"}}
  its attempts          in sweep {name}
  what it does now      {url}/ui
  admin's token         {admin}
Ctrl-C ends it."""

ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="a model of the registry, may be repeated: its endpoint, or vLLM started for its "
        "checkpoint",
    ),
]


@dataclass(frozen=True)
class GatewaySetup:
    """A gateway and its engines, checked as far as possible before anything starts."""

    settings: GatewaySettings
    access: "gateways.Access"
    endpoints: list["gateways.EndpointConfig"]
    """Those given, and those of the engines to be started."""
    engines: list["own_engines.Engine"]
    """To be started."""
    journal: Path | None


@verb
def gateway(
    settings: GatewaySettings,
    models: ModelsFile,
    model: ModelNames = None,
    as_json: AsJson = False,
) -> None:
    """Hold, place and record the calls of agents in front of engines, until Ctrl-C.

    TUTTI_GATEWAY_TOKENS sets required tokens (docs/gateway.md).
    """
    with gateways.without_pandas(), storage.open_catalog() as catalog:
        try:
            setup = _set_up(settings, model or [], models, catalog)
        except ValueError as error:
            raise UsageError(str(error)) from None
        _run(setup, catalog, as_json)


def _set_up(
    settings: GatewaySettings, names: Sequence[str], registry: Path, catalog: "storage.Catalog"
) -> GatewaySetup:
    """Find every error that can be found before an engine's start takes minutes.

    Raises UsageError, ValueError, PortTaken, RegistryError, PriceError.
    """
    urls = settings.engine
    if not urls and not names:
        raise UsageError("name what to stand before: --engine URL, or --model NAME")
    endpoints, engines = gateways.read_engines(urls), list[own_engines.Engine]()
    picked = models.pick_models(registry, names)
    recorded = {name for name, model in picked.items() if model.record_tokens}
    if recorded and (urls or len(recorded) < len(picked)):
        raise UsageError(
            f"{registry}: models.{min(recorded)}.record_tokens: a gateway asks all its engines for "
            "tokens or none; serve this model by a gateway of its own"
        )
    gateways.check_settings(settings)
    access = gateways.access_of(settings)
    access.check_host(settings.host)
    endpoints += [_endpoint(name, m, registry) for name, m in picked.items() if m.endpoint]
    for endpoint in endpoints:
        endpoint.key()
    port = processes.claim_port(settings.port or None, "`--port 0` takes a free one")
    for name, model in picked.items():
        if model.endpoint is None:
            engine = own_engines.Engine(name, model, catalog)
            engines.append(engine)
            endpoints.append(_endpoint(name, model, registry, engine))
    used = [endpoint.name for endpoint in endpoints]
    if twice := sorted({name for name in used if used.count(name) > 1}):
        raise UsageError(f"given twice: {', '.join(twice)}")
    settings = replace(
        settings,
        port=port,
        name=settings.name or f"gateway-{port}",
        record_tokens=settings.record_tokens or bool(recorded),
    )
    journal = None if settings.no_journal else gateways.journal_path(catalog.home, port)
    return GatewaySetup(settings, access, endpoints, engines, journal)


def _endpoint(
    name: str, model: "models.Model", registry: Path, engine: "own_engines.Engine | None" = None
) -> "gateways.EndpointConfig":
    """A registry's model as the gateway takes it. Raises UsageError."""
    from pydantic import ValidationError

    url = model.endpoint or (engine.address.url if engine else "")
    outside = model.checkpoint is None  # what tutti starts is served under the registry's name
    served = (model.served_name if outside else None) or name
    identity = engine.engine_id if engine else name
    try:
        config = gateways.EndpointConfig.of_model(name, model, url, identity, served)
    except ValidationError as error:
        raise UsageError(f"{registry}: models.{name}: {message_of(error)}") from None
    return config.model_copy(update={"pool": name})


def _run(setup: GatewaySetup, catalog: "storage.Catalog", as_json: bool) -> None:
    """Start the engines, serve, end all. Raises EngineFailed, GatewayFailed."""
    import uvloop

    with ExitStack() as running:
        for engine in setup.engines:
            typer.echo(f"starting vLLM for {engine.name} …", err=True)
            running.enter_context(engine)
        uvloop.run(_serve(setup, catalog, as_json))
    if not as_json:
        typer.echo("ended; what was recorded is kept", err=True)


async def _serve(setup: GatewaySetup, catalog: "storage.Catalog", as_json: bool) -> None:
    gateway = gateways.Gateway(catalog, setup.settings, setup.access, setup.journal)
    engines = setup.engines
    try:
        await gateways.serve(
            gateway,
            setup.endpoints,
            lambda port, token: typer.echo(_described(setup, port, token, as_json)),
            _watch(engines, gateway) if engines else None,
        )
    except OSError as error:
        where = f"{setup.settings.host}:{setup.settings.port}"
        raise serving.GatewayFailed(f"cannot listen on {where}: {error}") from error


def _described(setup: GatewaySetup, port: int, token: Path | None, as_json: bool) -> str:
    url = f"http://{setup.settings.host}:{port}"
    names = [name for endpoint in setup.endpoints for name in endpoint.models]
    if as_json:
        shown = {"url": url, "base_url": f"{url}/p/PROGRAM/v1", "ui": f"{url}/ui"}
        shown["admin_token_file"] = str(token or "")
        shown["sweep"] = setup.settings.name
        return json.dumps(shown | {"policy": setup.settings.policy, "models": names})
    unlisted = [endpoint.name for endpoint in setup.endpoints if not endpoint.models]
    if unlisted:
        names.append("what the engines say (GET /v1/models)")
    count = len(setup.endpoints)
    engines = f"{count} engine{'s' * (count > 1)}"
    return GUIDE.format(
        url=url,
        name=setup.settings.name,
        policy=setup.settings.policy,
        engines=engines,
        models=", ".join(names),
        admin=f"in {token}" if token else "as given in the environment",
    )


async def _watch(engines: list["own_engines.Engine"], gateway: "gateways.Gateway") -> None:
    """Print which engine died; do not return while another can answer. Raises EngineFailed."""

    async def watch(engine: "own_engines.Engine") -> None:
        try:
            await engine.watch()
        except serving.EngineFailed as error:
            others = [e for e in gateway.pools.all_endpoints() if e.name != engine.engine_id]
            if not any(other.reachable for other in others):
                raise
            typer.echo(f"tutti: {engine.name}: {error}", err=True)

    await asyncio.gather(*(watch(engine) for engine in engines))
    await asyncio.Event().wait()  # the others go on
