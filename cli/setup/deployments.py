"""Registers the deployments of prefect.yaml and the automation for worse nights (`make ui`).

In: prefect.yaml, the night file that its deployment `nightly` names, and TUTTI_NOTIFY_BLOCK. Out: a
file for `prefect deploy`, and an automation at the server.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tutti.cli.failures import UsageError
from tutti.tasks.config import read_document
from tutti.tasks.nights import ALERTS, NightFile, read_night

NIGHTLY = "nightly"
BLOCK = "TUTTI_NOTIFY_BLOCK"
AUTOMATION = "tutti: a worse night"
EVENTS = ["tutti.night.worse", "tutti.night.inconclusive"]
TRIES = 3
SUBJECT = "tutti: {{ event.payload.night }} is {{ event.payload.verdict }}"
BODY = "{{ event.payload.text }}"
Ask = Callable[..., Any]
"""(address, body or None, method) -> the server's answer; None for an error."""


@dataclass(frozen=True)
class Registration:
    """What is registered at the server."""

    file: Path
    """For `prefect deploy`."""
    names: tuple[str, ...]
    """The deployments in it."""
    night: NightFile


def written(project: Path, folder: Path) -> Registration:
    """Write prefect.yaml with the night file's schedule to `folder`.

    Raises SuiteError for an invalid night file, UsageError if prefect.yaml is not YAML.
    """
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
    """Create the automation for nights to look at. Returns whether the server accepted it.

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
    for nth in range(TRIES):  # a new server may need time
        time.sleep(nth)
        there = ask(f"{api}/automations/filter", {"automations": {"name": {"any_": [AUTOMATION]}}})
        if there is None:
            continue
        if there and not named:
            return True
        for each in there:
            ask(f"{api}/automations/{each['id']}", None, "DELETE")
        if ask(f"{api}/automations/", wanted) is not None:
            return True
    return False


def _action(api: str, named: str, ask: Ask) -> dict[str, Any]:
    kind, _, name = named.partition("/")
    address = f"{api}/block_types/slug/{kind}/block_documents/name/{name}"
    block = next(filter(None, (ask(address) for _ in range(TRIES))), None)
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
