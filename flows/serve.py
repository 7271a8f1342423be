"""The flow `serve-models`: models of the registry behind one gateway, for some minutes.

Run: ``tutti serve MODEL`` (until Ctrl-C), or from the Prefect UI. Everything that it starts ends
with it: engines, the gateway and the search service.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from prefect import flow
from pydantic import Field

from tutti.tasks.platform import MODELS, Strict
from tutti.tasks.platform.progress import StageProgress, in_flow_run, leave_page, open_run, stage
from tutti.tasks.serving.engines import Engine, ExternalEndpoint, require_engines
from tutti.tasks.serving.registry import pick_models
from tutti.tasks.serving.served import (
    EngineUse,
    FirstAnswer,
    announce_served,
    call_once,
    serve_for,
    served_page,
    show_engines,
)
from tutti.tasks.serving.wire import stop_on_signals
from tutti.tasks.sweeps.plan import Deployment, SearchService


class ServeParameters(Strict):
    """The models to serve, and for how long."""

    models: tuple[str, ...] = Field(
        ("pocket",), min_length=1, description="models of the registry file, by name"
    )
    minutes: float = Field(
        5.0, ge=0, description="how long to serve; 0 serves until the run is cancelled"
    )
    keep_minutes: float = Field(
        0.0,
        ge=0,
        description="let other runs use the engines, until idle for so long; not with `minutes`",
    )
    port: int = Field(0, ge=0, le=65535, description="the gateway's port; 0 takes a free one")
    check: bool = Field(
        True, description="call each model once; the run fails if one cannot answer"
    )
    search: bool = Field(
        True, description="also serve the search over the standard library's documentation"
    )
    registry: Path = Field(MODELS, description="the model registry file")
    announce_as: Literal["text", "json"] = Field(
        "text", description="how the addresses are printed to the run's output"
    )


DEFAULT_SERVICE = ServeParameters()


@flow(name="serve-models")
async def serve_models(parameters: ServeParameters = DEFAULT_SERVICE) -> dict[str, Any]:
    """Serve models until the time is over, Ctrl-C, or the run is cancelled.

    Args:
       parameters: Which models, for how long, and at which port.

    Returns the served name of each, their addresses, and their answers to the check. Raises
    RegistryError if a model is unknown or its checkpoint is missing, EngineFailed if an engine does
    not start or dies, ServingError if a model does not answer the check.
    """
    entries = pick_models(parameters.registry, tuple(dict.fromkeys(parameters.models)))
    require_engines(entries.values())
    answers: list[FirstAnswer] = []
    async with AsyncExitStack() as stack:
        run = stack.enter_context(open_run("serve-models", parameters.model_dump(mode="json")))
        library = None
        if parameters.search:
            library = await stack.enter_async_context(SearchService.open(run.catalog, run.log))
        deployment = Deployment(entries, run.catalog, run.log, library)
        deployment.port = parameters.port or None
        await stack.enter_async_context(deployment)
        if parameters.keep_minutes:
            deployment.keep()
        show_engines(run.log.console, deployment.started)
        gateway, engines = await deployment.start(), deployment.every
        names = {name: each.address.served_name for each in engines for name in each.entries}
        if parameters.check:
            answers = await check_models(run.log, gateway.url, names)
        url, search = f"{gateway.url}/v1", deployment.search_url
        address = {"url": url, "search": search}
        announce_served(", ".join(names), address, parameters.announce_as)
        page = served_page(url, names, answers, search)
        await leave_page(page, "served-models", f"Models at {url}")
        kept, use = parameters.keep_minutes, EngineUse(run.catalog, gateway, engines)
        is_busy = use.is_busy if kept else None
        await keep_serving(run.log, engines, kept or parameters.minutes, is_busy)
    return {"models": names, **address, "answers": [asdict(answer) for answer in answers]}


@stage(name="check", tags=("engine",))
async def check_models(
    progress: StageProgress, gateway_url: str, names: Mapping[str, str]
) -> list[FirstAnswer]:
    """Call each model once."""
    answers: list[FirstAnswer] = []
    for name in names:
        progress.show(len(answers), len(names), name)
        answers.append(await call_once(gateway_url, name))
    return answers


@stage(name="serve", tags=("engine",))
async def keep_serving(
    progress: StageProgress,
    engines: Sequence[Engine | ExternalEndpoint],
    minutes: float,
    is_busy: Callable[[], bool] | None,
) -> None:
    """Wait. SIGINT and SIGTERM end it, except in a flow run, where Prefect handles them."""
    with stop_on_signals(listen=not in_flow_run()) as stopped:
        await serve_for(engines, minutes, stopped, progress.show, is_busy)
