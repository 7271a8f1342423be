"""`tutti models`: lists the registry, shows which keys are set, and tests the endpoints.

In: the registry file. Out: the fields of each entry, without keys. `--check` requests each
endpoint's list of models as the gateway would, and looks for a checkpoint's weights.
"""

import asyncio
import json
import os
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer

from tutti import storage
from tutti.cli.base.failures import message_of
from tutti.cli.base.verbs import AsJson, ModelsFile, verb
from tutti.errors import ExitCode
from tutti.tasks import serving
from tutti.tasks.serving import engines, gateway, registry, served, wire
from tutti.tasks.sweeps import plan


@dataclass(frozen=True)
class Entry:
    """One model, and the results of its check."""

    name: str
    model: "registry.Model"
    ok: bool | None = None
    """Whether the check passed; None if it was not made."""
    found: str = ""
    probes: tuple[dict[str, str], ...] = ()
    """Results of small calls, with `--calls`."""

    @property
    def served_name(self) -> str:
        return self.model.served_name or self.name

    @property
    def row(self) -> dict[str, Any]:
        """Return the entry as JSON; `key` is set, missing, or none if no key is needed."""
        model, key = self.model, "none"
        if model.api_key_env is not None:
            key = "set" if os.environ.get(model.api_key_env, "").strip() else "missing"
        place = {"where": model.endpoint or str(model.checkpoint), "served_name": self.served_name}
        names = ("dialect", "context_tokens", "tools", "thinking", "api_key_env")
        settings = {name: getattr(model, name) for name in names} | {"key": key}
        check = {"ok": self.ok, "found": self.found, "probes": self.probes}
        return {"name": self.name, "provider": model.provider} | place | settings | check


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
    known = registry.pick_models(models, name) if name else registry.read_registry(models)
    entries = [Entry(name, model) for name, model in known.items()]
    if check or calls:
        entries = asyncio.run(_checked(entries))
    if calls:
        entries = [asyncio.run(_called(each)) for each in entries]
    if as_json:
        typer.echo(json.dumps([entry.row for entry in entries]))
    else:
        typer.echo("\n".join(map(_text, entries)))
    return ExitCode.FAILED if any(entry.ok is False for entry in entries) else ExitCode.DONE


async def _checked(entries: list[Entry]) -> list[Entry]:
    """The entries with their verdicts; all are checked at once, each with its own timeout."""
    verdicts = await asyncio.gather(*map(_check, entries))
    return [replace(entry, ok=v[0], found=v[1]) for entry, v in zip(entries, verdicts, strict=True)]


async def _check(entry: Entry) -> tuple[bool, str]:
    from pydantic import ValidationError

    name, model = entry.name, entry.model
    try:
        if model.endpoint is None:
            return True, await asyncio.to_thread(_engine_found, entry)
        config = gateway.EndpointConfig.of_model(
            name, model, model.endpoint, name, entry.served_name
        )
        answer = await served.ask_for_models(gateway.Endpoint.make(config), model.provider)
    except gateway.ProbeFailed as error:
        return False, f"does not answer: {error}"
    except (ValidationError, serving.ServingError, ValueError) as error:
        return False, message_of(error)
    return _verdict(answer, entry.served_name, model.metrics)


def _engine_found(entry: Entry) -> str:
    """Return the server of an entry with weights. Raises ServingError."""
    with storage.open_catalog() as catalog:
        line = engines.engine_line(entry.name, entry.model, catalog)
    return f"the weights are there; {line}"


async def _called(entry: Entry) -> Entry:
    """The entry with the results of small calls through a gateway; a failed one is not called."""
    from tutti.tasks.serving.served import probing

    if not entry.ok:
        return entry
    model, found = entry.model, entry.found
    try:
        with storage.open_catalog() as catalog:
            async with plan.Deployment({entry.name: model}, catalog) as deployment:
                gateway_url = (await deployment.start()).url
                probes = await probing.probe_model(gateway_url, entry.name, model)
        if model.checkpoint is not None:  # by now its engine has said what its cache holds
            found = await asyncio.to_thread(_engine_found, entry)
    except serving.ServingError as error:
        return replace(entry, ok=False, found=str(error))
    failed = [probe.name for probe in probes if probe.status == "failed"]
    found = f"{', '.join(failed)}; {found}" if failed else found
    rows = tuple(asdict(probe) for probe in probes)
    return replace(entry, ok=not failed, found=found, probes=rows)


def _verdict(answer: "wire.Answer", served: str, engine: bool) -> tuple[bool, str]:
    """Return whether the model can be called, judging by the endpoint's list of models. Only an
    engine's list is complete: providers omit aliases and deployments, or have no list."""
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
    """Return two or three short lines; a table would be too wide for most terminals."""
    row, model = entry.row, entry.model
    tools = "tools" if model.tools else "no tools" if model.dialect == "openai" else "tools as text"
    words = [f"dialect {model.dialect}", f"{model.context_tokens:,} tokens", tools]
    if model.thinking is not None:
        words.append(f"thinking {'on' if model.thinking else 'off'}")
    if entry.served_name != entry.name:
        words.insert(0, f"serves {entry.served_name}")
    words.append("no key" if model.api_key_env is None else f"{model.api_key_env} {row['key']}")
    lines = [f"{entry.name}  {model.provider}  {row['where']}", f"    {', '.join(words)}"]
    if entry.ok is not None:
        lines.append(f"    {'ok' if entry.ok else 'FAILED'}: {entry.found}")
    for probe in entry.probes:
        fix = f"; {probe['mend']}" if probe["mend"] else ""
        lines.append(f"      {probe['status']:<8}{probe['name']}: {probe['found']}{fix}")
    return "\n".join(lines)
