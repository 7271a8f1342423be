"""`tutti models`: lists the registry, shows which keys are set, and tests the endpoints.

In: the registry file. Out: the fields of each entry, without keys. `--check` requests each
endpoint's list of models as the gateway would (same path and key), and looks for a checkpoint's
weights.
"""

import asyncio
import json
import os
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from tutti import storage
from tutti.cli.failures import ExitCode, message_of
from tutti.cli.verbs import AsJson, ModelsFile, verb
from tutti.tasks import progress, serving
from tutti.tasks.serving import engines, gateway, wire
from tutti.tasks.sweeps import run


@dataclass(frozen=True)
class Entry:
    """One model, as shown."""

    name: str
    provider: str
    where: str
    """Its endpoint, or the folder of its weights."""
    served_name: str
    dialect: str
    context_tokens: int
    tools: bool
    thinking: bool | None
    api_key_env: str | None
    key: str
    """``set``, ``missing``, or ``none`` if no key is needed."""
    ok: bool | None = None
    """Whether the check passed; None if it was not made."""
    found: str = ""
    probes: tuple[dict[str, str], ...] = ()
    """What small calls have shown, with `--calls`."""


@verb
def show_models(
    models: ModelsFile,
    check: Annotated[
        bool,
        typer.Option("--check", help="test endpoints and engines' commands; exit 1 if one fails"),
    ] = False,
    calls: Annotated[
        bool,
        typer.Option(
            "--calls", help="serve and call each: tools, cache, stream, context; costs some tokens"
        ),
    ] = False,
    name: Annotated[list[str] | None, typer.Option(help="these entries only")] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """List the registry: provider, endpoint, dialect, context, tools, state of the key."""
    registry = serving.pick_models(models, name) if name else serving.read_registry(models)
    entries = [entry_of(name, model) for name, model in registry.items()]
    if check or calls:
        entries = asyncio.run(_checked(entries, registry))
    if calls:
        entries = [asyncio.run(_called(each, registry[each.name])) for each in entries]
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in entries]))
    else:
        typer.echo("\n".join(map(_text, entries)))
    return ExitCode.FAILED if any(entry.ok is False for entry in entries) else ExitCode.DONE


def entry_of(name: str, model: "serving.Model") -> Entry:
    """The entry of a model, from the registry and the environment."""
    key = "none"
    if model.api_key_env is not None:
        key = "set" if os.environ.get(model.api_key_env, "").strip() else "missing"
    return Entry(
        name,
        model.provider,
        model.endpoint or str(model.checkpoint),
        model.served_name or name,
        model.dialect,
        model.context_tokens,
        model.tools,
        model.thinking,
        model.api_key_env,
        key,
    )


async def _checked(entries: list[Entry], registry: "dict[str, serving.Model]") -> list[Entry]:
    """Check all entries concurrently; each has its own timeout."""
    return list(await asyncio.gather(*(_check(each, registry[each.name]) for each in entries)))


async def _check(entry: Entry, model: "serving.Model") -> Entry:
    from pydantic import ValidationError

    if model.endpoint is None:
        try:
            found = await asyncio.to_thread(_engine_found, entry.name, model)
        except serving.ServingError as error:
            return replace(entry, ok=False, found=str(error))
        return replace(entry, ok=True, found=found)
    try:
        endpoint = gateway.Endpoint.make(
            gateway.EndpointConfig.of_model(
                entry.name, model, model.endpoint, entry.name, entry.served_name
            )
        )
    except ValidationError as error:
        return replace(entry, ok=False, found=message_of(error))
    except ValueError as error:
        return replace(entry, ok=False, found=str(error))
    try:
        answer = await serving.ask_for_models(endpoint, model.provider)
    except gateway.ProbeFailed as error:
        return replace(entry, ok=False, found=f"does not answer: {error}")
    ok, found = _verdict(answer, entry.served_name, model.metrics)
    return replace(entry, ok=ok, found=found)


def _engine_found(name: str, model: "serving.Model") -> str:
    """What serves an entry of weights. Raises ServingError."""
    with storage.open_catalog() as catalog:
        return f"the weights are there; {engines.engine_line(name, model, catalog)}"


async def _called(entry: Entry, model: "serving.Model") -> Entry:
    """The entry with what small calls through a gateway show; one that failed is not called."""
    from tutti.tasks.serving.served import probing

    if not entry.ok:
        return entry
    try:
        with storage.open_catalog() as catalog:
            async with run.open_bench(
                {entry.name: model}, None, catalog, progress.StageLog()
            ) as bench:
                services = await bench.services()
                probes = await probing.probe_model(services.gateway.url, entry.name, model)
        found = entry.found
        if model.checkpoint is not None:  # by now its engine has said what its cache holds
            found = await asyncio.to_thread(_engine_found, entry.name, model)
    except serving.ServingError as error:
        return replace(entry, ok=False, found=str(error))
    failed = [probe.name for probe in probes if probe.status == "failed"]
    found = f"{', '.join(failed)}; {found}" if failed else found
    return replace(
        entry, ok=not failed, found=found, probes=tuple(asdict(probe) for probe in probes)
    )


def _verdict(answer: "wire.Answer", served: str, engine: bool) -> tuple[bool, str]:
    """Whether the model can be called, judging by the endpoint's list of models.

    Only an engine's list is complete: providers omit aliases and deployments, or have no list.
    """
    if answer.status in (401, 403):
        return False, f"rejects the key (HTTP {answer.status})"
    if answer.status == 404 and not engine:
        return True, "answers; it lists no models"
    if answer.status != 200:
        return False, f"its list of models (GET /v1/models) answers with HTTP {answer.status}"
    try:
        names = [str(each["id"]) for each in json.loads(answer.body)["data"]]
    except (ValueError, KeyError, TypeError) as error:
        return False, f"its list of models is invalid: {error!r}"
    if served in names:
        return True, f"serves {served}"
    some = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return not engine, f"answers; {served} is not in its list ({some or 'empty'})"


def _text(entry: Entry) -> str:
    """Two or three short lines; a table would be too wide for most terminals."""
    tools = "tools" if entry.tools else "no tools" if entry.dialect == "openai" else "tools as text"
    said = [f"dialect {entry.dialect}", f"{entry.context_tokens:,} tokens", tools]
    if entry.thinking is not None:
        said.append(f"thinking {'on' if entry.thinking else 'off'}")
    if entry.served_name != entry.name:
        said.insert(0, f"serves {entry.served_name}")
    said.append("no key" if entry.api_key_env is None else f"{entry.api_key_env} {entry.key}")
    lines = [f"{entry.name}  {entry.provider}  {entry.where}", f"    {', '.join(said)}"]
    if entry.ok is not None:
        lines.append(f"    {'ok' if entry.ok else 'FAILED'}: {entry.found}")
    for probe in entry.probes:
        mend = f"; {probe['mend']}" if probe["mend"] else ""
        lines.append(f"      {probe['status']:<8}{probe['name']}: {probe['found']}{mend}")
    return "\n".join(lines)
