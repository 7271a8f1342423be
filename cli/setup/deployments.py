"""What `make ui` registers: the deployments of prefect.yaml, and what happens on a worse night.

In: prefect.yaml, the night file that its deployment `nightly` names, and TUTTI_NOTIFY_BLOCK. Out: a
file for `prefect deploy`, and an automation at the server.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tutti.cli.failures import UsageError
from tutti.tasks.config import read_document
from tutti.tasks.nights import NightFile, read_night

NIGHTLY = "nightly"
BLOCK = "TUTTI_NOTIFY_BLOCK"
AUTOMATION = "tutti: a worse night"
TRIES = 3
SUBJECT = "tutti: {{ event.payload.night }} is {{ event.payload.verdict }}"
BODY = "{{ event.payload.text }}"
Ask = Callable[..., Any]
"""(address, body or None, method) to what the server answers; None for an error."""


def written(project: Path, folder: Path) -> tuple[Path, NightFile]:
    """prefect.yaml with the night file's schedule, in `folder`; and the night file.

    Raises SuiteError where the night file is wrong, UsageError where prefect.yaml is no YAML.
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
    return path, night


def automate(api: str, ask: Ask) -> bool:
    """Have the server act on a worse night: notify by the block that TUTTI_NOTIFY_BLOCK names.

    Without one the automation is there to be edited in the UI, and stays as it was edited. Whether
    the server took it. Raises UsageError for a block that the server does not have.
    """
    named = os.environ.get(BLOCK)
    action = {"type": "do-nothing"} if not named else _action(api, named, ask)
    trigger = {"type": "event", "posture": "Reactive", "expect": ["tutti.night.worse"]}
    wanted = {
        "name": AUTOMATION,
        "description": "Made by `make ui`; docs/nightly.md",
        "enabled": True,
        "trigger": {**trigger, "threshold": 1, "within": 0},
        "actions": [action],
    }
    for nth in range(TRIES):  # a new server may be slow
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
            f"{BLOCK}={named}: the server has no such block; it is TYPE/NAME, as in "
            "slack-webhook/team, and is made in the UI under Blocks"
        )
    if kind == "webhook":
        text = "{{ event.payload | tojson }}"
        return {"type": "call-webhook", "block_document_id": block["id"], "payload": text}
    said = {"subject": SUBJECT, "body": BODY}
    return {"type": "send-notification", "block_document_id": block["id"], **said}
