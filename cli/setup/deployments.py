"""Registers the deployments of prefect.yaml, their forms and the automation for worse nights.

In: prefect.yaml, the night file that it names, TUTTI_NOTIFY_BLOCK, this machine's benchmarks,
models and agents. Out: a file for `prefect deploy`, an automation, and the schemas of the forms.
Every value that a flow accepts stays valid: each choice has a field for another value beside it.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tutti.cli.base.failures import UsageError
from tutti.tasks.benchmarks import BENCHMARKS
from tutti.tasks.nights import ALERTS, NightFile, read_night
from tutti.tasks.platform import DEPLOYMENTS, MODELS, read_document
from tutti.tasks.serving import RegistryError
from tutti.tasks.serving.registry import read_registry

NIGHTLY = "nightly"
BLOCK = "TUTTI_NOTIFY_BLOCK"
AUTOMATION = "tutti: a worse night"
EVENTS = ["tutti.night.worse", "tutti.night.inconclusive"]
TRIES = 4  # a server that has just started refuses some calls
SUBJECT = "tutti: {{ event.payload.night }} is {{ event.payload.verdict }}"
BODY = "{{ event.payload.text }}"
Ask = Callable[..., Any]
"""(address, body or None, method) -> the server's answer; None for an error."""


@dataclass(frozen=True)
class Registration:
    """The objects to register at the server."""

    file: Path
    names: tuple[str, ...]
    night: NightFile


def written(project: Path, folder: Path) -> Registration:
    """Write prefect.yaml with the night file's schedule to `folder`. Raises SuiteError for an
    invalid night file, UsageError if prefect.yaml is not YAML."""
    content = read_document(project / "prefect.yaml", UsageError).content
    (nightly,) = (each for each in content["deployments"] if each["name"] == NIGHTLY)
    night = read_night(project / nightly["parameters"]["suite_file"])
    nightly["schedules"] = []
    if night.schedule is not None:
        schedule = {"cron": night.schedule, "timezone": night.timezone, "active": True}
        nightly["schedules"].append(schedule)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "deployments.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    names = tuple(each["name"] for each in content["deployments"])
    return Registration(path, names, night)


def automate(api: str, ask: Ask) -> bool:
    """Create the automation for nights that need attention. Return whether the server accepted it.

    It notifies by the block that TUTTI_NOTIFY_BLOCK names. Without a block it does nothing until it
    is edited in the UI, and an edited one is kept. Raises UsageError for an unknown block.
    """
    named = os.environ.get(BLOCK)
    action = {"type": "do-nothing"} if not named else _action(api, named, ask)
    trigger: dict[str, Any] = {"type": "event", "posture": "Reactive", "expect": EVENTS}
    trigger["match"] = {ALERTS: "yes"}
    wanted = {
        "name": AUTOMATION,
        "description": "Made by `make ui`; docs/nightly.md",
        "enabled": True,
        "trigger": {**trigger, "threshold": 1, "within": 0},
        "actions": [action],
    }
    named_so = {"automations": {"name": {"any_": [AUTOMATION]}}}
    existing = _ask_repeatedly(ask, f"{api}/automations/filter", named_so)
    if existing is None:
        return False
    if existing and not named:
        return True
    for each in existing:
        ask(f"{api}/automations/{each['id']}", None, "DELETE")
    return _ask_repeatedly(ask, f"{api}/automations/", wanted) is not None


def _ask_repeatedly(ask: Ask, *request: Any) -> Any:
    """The server's answer; None if it refuses each of `TRIES` calls."""
    for nth in range(TRIES):
        time.sleep(nth)
        answer = ask(*request)
        if answer is not None:
            return answer
    return None


def _action(api: str, named: str, ask: Ask) -> dict[str, Any]:
    kind, _, name = named.partition("/")
    address = f"{api}/block_types/slug/{kind}/block_documents/name/{name}"
    block = _ask_repeatedly(ask, address)
    if block is None:
        raise UsageError(
            f"{BLOCK}={named}: the server has no such block; create it in the UI "
            "under Blocks and name it as TYPE/NAME, for example slack-webhook/team"
        )
    if kind == "webhook":
        text = "{{ event.payload | tojson }}"
        return {"type": "call-webhook", "block_document_id": block["id"], "payload": text}
    message = {"subject": SUBJECT, "body": BODY}
    return {"type": "send-notification", "block_document_id": block["id"], **message}


Schema = dict[str, Any]

FIRST = {
    "benchmark": "What is measured. `stdlib` is made on this machine; the others are downloaded "
    'or read from Data, Source. Under another, in quotes: a file of your own (`"my.jsonl"` or a '
    '`.py` file), several trials of each item (`"gsm8k:4"`), or `"name@revision"`',
    "model": "The model that is measured, from the model registry. Under another, in quotes: a "
    "model of another registry file",
    "concurrency": "Sessions at once. Each level is measured by itself",
    "policies": "The gateway's scheduling rules to compare. With options: a list as "
    '`["passthrough", {"name": "cap", "limit": 8}]`',
    "limit": "Measure only the first N tasks of the benchmark; empty: all. `stdlib` takes none: it "
    "has Tasks, Test per family",
}
"""The fields of a suite that most sweeps set, in the form's order, with their help there."""
TITLES = {"models": "Model registry"}
"""Of parameters whose names do not tell what they are."""
LAST = ("benchmarks", "models")
HIDDEN = ("schedule",)
"""Fields of a suite that a run from a form has no use for; they stay valid."""
CHOSEN = {
    ("Suite", "benchmark"): "benchmarks",
    ("Suite", "benchmarks"): "benchmarks",
    ("Suite", "model"): "models",
    ("Suite", "models"): "models",
    ("RoleModels", "judge"): "models",
    ("RoleModels", "user"): "models",
    ("RoleModels", "agent"): "agents",
    ("ServeParameters", "models"): "models",
}
"""Fields whose choices depend on the machine: (model, field) -> the kind of choices."""


Choices = Mapping[str, Sequence[str]]
"""The benchmarks, models and agents of this machine."""


def choices_here(registry: Path) -> Choices:
    """Return the choices of this machine. Raises RegistryError for an invalid registry."""
    agents = sorted(path.stem for path in (DEPLOYMENTS / "agents").glob("*.yaml"))
    benchmarks, models = tuple(BENCHMARKS), tuple(read_registry(registry))
    return {"benchmarks": benchmarks, "models": models, "agents": agents}


def shaped(schema: Mapping[str, Any], choices: Choices) -> Schema:
    """Return the schema of a deployment in the form that its UI form needs."""
    form = deepcopy(dict(schema))
    groups: dict[str, Schema] = form.get("definitions", {})
    for group in (form, *groups.values()):
        fields = group.get("properties", {})
        group["properties"] = {name: _without_null(field) for name, field in fields.items()}
    for name, field in form["properties"].items():
        field["title"] = TITLES.get(name, name.replace("_", " ").capitalize())
    for (group_name, name), kind in CHOSEN.items():
        if group_name in groups:
            fields = groups[group_name]["properties"]
            fields[name] = _with_choices(fields[name], choices[kind])
    if "Suite" in groups:
        groups["Suite"].pop("additionalProperties")  # the server would refuse what is hidden
        _shape_suite(groups["Suite"]["properties"], groups["Policy"])
    return form


class DeploymentForms:
    """The forms of registered deployments, at a server; they follow the model registry."""

    def __init__(self, api: str, ask: Ask, names: Sequence[str], registry: Path = MODELS) -> None:
        self.api, self.ask, self.registry = api, ask, registry
        asked = {"deployments": {"name": {"any_": list(names)}}}
        found = _ask_repeatedly(ask, f"{api}/deployments/filter", asked) or []
        self.schemas = {each["id"]: each["parameter_openapi_schema"] for each in found}
        """As the flows have them, by the deployment's id."""
        self._written_at: float | None = None

    def follow(self) -> str | None:
        """Update the forms' choices if the registry has changed since the last call. Return an
        error, if there is one; the forms then stay as they are."""
        written_at = self.registry.stat().st_mtime if self.registry.is_file() else 0.0
        if written_at == self._written_at:
            return None
        self._written_at = written_at
        try:
            choices = choices_here(self.registry)
        except RegistryError as error:
            return f"the forms do not know the models: {error}"
        answers = [
            _ask_repeatedly(
                self.ask,
                f"{self.api}/deployments/{deployment}",
                {"parameter_openapi_schema": shaped(schema, choices)},
                "PATCH",
            )
            for deployment, schema in self.schemas.items()
        ]
        accepted = bool(answers) and None not in answers
        return None if accepted else "the server rejected the choices of the forms"


def _shape_suite(fields: dict[str, Schema], policy: Schema) -> None:
    for name in HIDDEN:
        fields.pop(name)
    for name, text in FIRST.items():
        fields[name]["description"] = text
    names = policy["properties"]["name"]["enum"]
    fields["policies"] = _with_choices(fields["policies"], names, "with options")
    middle = [name for name in fields if name not in FIRST and name not in LAST]
    for position, name in enumerate((*FIRST, *middle, *LAST)):
        fields[name]["position"] = position


def _without_null(field: Schema) -> Schema:
    """Return an optional field as an empty input. The form draws "X or null" as two buttons; the
    server accepts null for a field that is neither required nor has a default."""
    match field:
        case {"anyOf": [{"type": _} as given, {"type": "null"}], "default": None, **rest}:
            choices = {"enum": [*given["enum"], None]} if "enum" in given else {}
            return dict(given) | rest | choices
    return field


def _with_choices(field: Schema, names: Sequence[str], other: str = "another") -> Schema:
    """Return the field as a choice of `names`, and beside it as JSON.

    The form draws an alternative without a `type` as JSON. With one, it would return to the first
    alternative of that type at each key.
    """
    if not names:
        return field
    kind, shown = field["type"], ("title", "description", "default")
    one: Schema = {"type": "string", "enum": list(names)}
    first = {"type": "array", "items": one} if kind == "array" else one
    rest = {name: value for name, value in field.items() if name not in (*shown, "type")}
    kept = {name: field[name] for name in shown if name in field}
    taken = {"allOf": [{"type": [kind] if "default" in field else [kind, "null"]}]}
    return kept | {"anyOf": [{"title": "choose", **first}, {"title": other, **rest, **taken}]}
