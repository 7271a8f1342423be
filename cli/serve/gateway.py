"""`tutti gateway`: the program-aware gateway before engines, until Ctrl-C.

In: engines by URL, models of the registry (those with a checkpoint are started first), a policy.
Out: where it listens and how an agent is pointed at it; then it serves. Ctrl-C, or SIGTERM, ends
the gateway, then the engines that were started for it, with exit code 0.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutti.cli.failures import UsageError, guarded, message_of
from tutti.tasks.project import MODELS

if TYPE_CHECKING:
    from tutti.storage import Catalog
    from tutti.tasks.serving import Engine, Model
    from tutti.tasks.serving.gateway import Access, EndpointConfig, Gateway, Settings

PORT = 8300
GUIDE = """\
gateway on {url}: policy {policy}; {engines}
  an agent's base URL   {url}/p/PROGRAM/v1 (Anthropic's clients: without /v1)
  or by a header        {url}/v1 with X-Program-Id: PROGRAM
  models                {models}
  when it is over       POST {url}/programs/release {{"program_id": "PROGRAM"}}
  what it does now      {url}/ui
  admin's token         {admin}
Ctrl-C ends it."""

EngineUrls = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL|ID=URL|JSON",
        help="an engine that runs (vLLM, SGLang), by its base URL; may be repeated",
    ),
]
ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="a model of the registry, may be repeated: its endpoint, or vLLM started for its "
        "checkpoint",
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, help="programs at once, for --policy cap")]
PolicyOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="an option of the policy; may be repeated"),
]
Host = Annotated[str, typer.Option(help="where to listen; beyond this machine only with tokens")]
AllowHosts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="another name that browsers may reach it by, such as a proxy's; may be repeated",
    ),
]
AllowEngines = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST|NETWORK",
        help="where POST /engines may add engines beside public addresses and the hosts of "
        "--engine: a name, an address, a network like 10.0.0.0/8; may be repeated",
    ),
]
EngineKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="VARIABLE",
        help="a key in the environment that POST /engines may name; may be repeated",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(gateway)


@dataclass(frozen=True)
class GatewaySetup:
    """What is to be served, checked as far as it can be before anything starts."""

    settings: "Settings"
    access: "Access"
    endpoints: list["EndpointConfig"]
    engines: list[tuple["Engine", "EndpointConfig"]]
    """To be started, with their endpoints."""
    host: str
    port: int

    @property
    def all_endpoints(self) -> list["EndpointConfig"]:
        """Those given, and those of the engines to be started."""
        return [*self.endpoints, *(endpoint for _, endpoint in self.engines)]


def gateway(
    engine: EngineUrls = None,
    model: ModelNames = None,
    models: Annotated[Path, typer.Option("--models", help="the model registry file")] = MODELS,
    policy: Annotated[
        str,
        typer.Option(
            help="passthrough, cap, adaptive, thunderagent, continuum or least_attained_service"
        ),
    ] = "adaptive",
    limit: Limit = None,
    option: PolicyOptions = None,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one")] = PORT,
    budget_usd: Annotated[
        float | None, typer.Option(min=0, help="then calls are refused with 402")
    ] = None,
    hold_s: Annotated[float, typer.Option(min=0, help="the longest hold; then 503")] = 300.0,
    prices: Annotated[
        Path | None, typer.Option(help="price book; deployments/prices.yaml if left out")
    ] = None,
    allow_host: AllowHosts = None,
    allow_engine: AllowEngines = None,
    engine_key: EngineKeys = None,
    as_json: AsJson = False,
) -> None:
    """Hold, place and record the calls of agents before engines, until Ctrl-C.

    Tokens, where it should ask for some: TUTTI_GATEWAY_TOKENS (docs/gateway.md).
    """

    def work() -> None:
        from tutti.storage import open_catalog

        chosen = _chosen(engine or [], model or [], models)
        settings = _settings(policy, option or [], limit, hold_s, prices, chosen.record_tokens)
        settings = replace(
            settings,
            engine_hosts=tuple(allow_engine or ()),
            engine_keys=tuple(engine_key or ()),
        )
        names = [*(allow_host or []), host]
        access = _access(budget_usd, host, names, chosen.endpoints)
        with open_catalog() as catalog:
            plan = _plan(chosen, settings, access, host, port, catalog)
            _run(plan, catalog, as_json)

    guarded(work)


@dataclass(frozen=True)
class ChosenModels:
    """What --engine and --model name."""

    endpoints: list["EndpointConfig"]
    checkpoints: dict[str, "Model"]
    record_tokens: bool


def _chosen(urls: Sequence[str], names: Sequence[str], registry: Path) -> ChosenModels:
    """Raises RegistryError, UsageError."""
    from pydantic import ValidationError

    from tutti.tasks.serving import pick_models
    from tutti.tasks.serving.gateway import read_engines

    if not urls and not names:
        raise UsageError("name what to stand before: --engine URL, or --model NAME")
    try:
        endpoints = read_engines(urls)
    except ValueError as error:
        raise UsageError(str(error)) from None
    picked = pick_models(registry, names)
    kept = {name for name, model in picked.items() if model.record_tokens}
    if kept and (urls or len(kept) < len(picked)):
        raise UsageError(
            f"{registry}: models.{min(kept)}.record_tokens: a gateway asks all its engines for "
            "tokens or none; serve this model by a gateway of its own"
        )
    for name, model in picked.items():
        if model.endpoint is not None:
            try:
                endpoints.append(_endpoint(name, model, model.endpoint, name))
            except ValidationError as error:
                raise UsageError(f"{registry}: models.{name}: {message_of(error)}") from None
    served = {name: model for name, model in picked.items() if model.endpoint is None}
    return ChosenModels(endpoints, served, bool(kept))


def _endpoint(name: str, model: "Model", url: str, identity: str) -> "EndpointConfig":
    """A registry's model as the gateway takes it. Raises ValidationError."""
    from tutti.tasks.serving.gateway import EndpointConfig

    outside = model.checkpoint is None  # what tutti starts is served under the registry's name
    served = (model.served_name if outside else None) or name
    return EndpointConfig.of_model(model, url, identity, served, pool=name)


def _settings(
    policy: str,
    option: Sequence[str],
    limit: int | None,
    hold_s: float,
    prices: Path | None,
    record_tokens: bool,
) -> "Settings":
    """Raises UsageError, PriceError."""
    from tutti.tasks.serving.gateway import Settings, read_policy, read_prices

    try:
        options = read_policy(policy, option, limit)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Settings(
        policy=policy,
        options=options,
        hold_s=hold_s,
        record_tokens=record_tokens,
        prices=read_prices(prices),
    )


def _access(
    budget_usd: float | None,
    host: str,
    hosts: Sequence[str],
    endpoints: Sequence["EndpointConfig"],
) -> "Access":
    """Tokens and keys from the environment. Raises UsageError."""
    from tutti.tasks.serving.gateway import Access

    try:
        access = Access.of_environment(budget_usd, hosts)
        access.check_host(host)
        for endpoint in endpoints:
            endpoint.key()
    except ValueError as error:
        raise UsageError(str(error)) from None
    return access


def _plan(
    chosen: ChosenModels,
    settings: "Settings",
    access: "Access",
    host: str,
    port: int,
    catalog: "Catalog",
) -> GatewaySetup:
    """What can be wrong is found here, before an engine's start takes minutes.

    Raises UsageError, PortTaken, RegistryError.
    """
    from tutti.tasks.serving import Engine, claim_port

    listening = claim_port(port or None)
    engines = []
    for name, model in chosen.checkpoints.items():
        engine = Engine(name, model, catalog)
        endpoint = _endpoint(name, model, engine.address.url, engine.engine_id)
        engines.append((engine, endpoint))
    plan = GatewaySetup(settings, access, chosen.endpoints, engines, host, listening)
    names = [endpoint.name for endpoint in plan.all_endpoints]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"given twice: {', '.join(twice)}")
    return plan


def _run(plan: GatewaySetup, catalog: "Catalog", as_json: bool) -> None:
    """Start the engines, serve, end all. Raises EngineFailed, GatewayFailed."""
    import uvloop

    with ExitStack() as running:
        for engine, _ in plan.engines:
            typer.echo(f"starting vLLM for {engine.name} …", err=True)
            running.enter_context(engine)
        uvloop.run(_serve(plan, catalog, as_json))
    if not as_json:
        typer.echo("ended; what was recorded is kept", err=True)


async def _serve(plan: GatewaySetup, catalog: "Catalog", as_json: bool) -> None:
    from tutti.tasks.serving import GatewayFailed
    from tutti.tasks.serving.gateway import Gateway, serve

    journal = catalog.home.root / "gateway" / f"programs-{plan.port}.jsonl"
    made = Gateway(catalog, plan.settings, plan.access, journal)
    engines = [engine for engine, _ in plan.engines]
    try:
        await serve(
            made,
            plan.host,
            plan.port,
            plan.all_endpoints,
            lambda port, token: typer.echo(_told(plan, port, token, as_json)),
            _watch(engines, made) if engines else None,
        )
    except OSError as error:
        raise GatewayFailed(f"cannot listen on {plan.host}:{plan.port}: {error}") from error


def _told(plan: GatewaySetup, port: int, token: Path | None, as_json: bool) -> str:
    """Where it is and how it is used."""
    url = f"http://{plan.host}:{port}"
    names = [name for endpoint in plan.all_endpoints for name in endpoint.models]
    if as_json:
        told = {"url": url, "base_url": f"{url}/p/PROGRAM/v1", "ui": f"{url}/ui"}
        told["admin_token_file"] = str(token or "")
        return json.dumps(told | {"policy": plan.settings.policy, "models": names})
    asked = [endpoint.name for endpoint in plan.all_endpoints if not endpoint.models]
    if asked:
        names.append("what the engines say (GET /v1/models)")
    count = len(plan.all_endpoints)
    engines = f"{count} engine{'s' * (count > 1)}"
    return GUIDE.format(
        url=url,
        policy=plan.settings.policy,
        engines=engines,
        models=", ".join(names),
        admin=f"in {token}" if token else "as given in the environment",
    )


async def _watch(engines: list["Engine"], made: "Gateway") -> None:
    """Say which engine died; return never while another can answer. Raises EngineFailed."""
    from tutti.tasks.serving import EngineFailed

    async def watch(engine: "Engine") -> None:
        try:
            await engine.watch()
        except EngineFailed as error:
            others = [e for e in made.pools.all_endpoints() if e.name != engine.engine_id]
            if not any(other.reachable for other in others):
                raise
            typer.echo(f"tutti: {engine.name}: {error}", err=True)

    await asyncio.gather(*(watch(engine) for engine in engines))
    await asyncio.Event().wait()  # the others go on
