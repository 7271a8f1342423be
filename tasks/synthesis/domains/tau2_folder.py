"""A domain and its tasks in tau2-bench's own form: data files, and a package in which its tools
run.

In: a domain, its tasks with `expected`. Out, in a folder with the layout of tau2's checkout:
``data/tau2/domains/NAME`` (tasks.json, split_tasks.json, policy.md, db.json, and expected.json with
each task's state hash) and the package ``src/tau2/domains/NAME``. Copied over a checkout it becomes
one of its domains; `bench.synthesis.tau2_check` runs it in place.

tau2 has no tools by task, so all of the domain's tools are offered. Required facts lose their
commas, because tau2 removes them from the agent's messages.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tutti.errors import UsageError
from tutti.tasks.synthesis.domains.domain import Domain, DomainTask, Name
from tutti.tasks.synthesis.domains.tau2_source import tau2_source

DATA, PACKAGE = Path("data/tau2/domains"), Path("src/tau2/domains")
ALL = "base"
"""tau2's split of all tasks, its default."""
NOTHING_ELSE = "Ask for nothing else."
"""The instructions of a task without any, which tau2's form must have."""


def write_tau2_folder(
    folder: Path, domain: Domain, tasks: Iterable[DomainTask], name: str | None = None
) -> None:
    """Write the domain below `folder`; `name` replaces the domain's own if tau2 has one of that
    name. The same domain and tasks give the same bytes.

    Raises UsageError for names, records or tasks that tau2 cannot have, and then writes nothing.
    """
    called = domain.name if name is None else name
    try:
        TypeAdapter(Name).validate_python(called)
    except ValidationError as error:
        raise UsageError(f"name: {name!r}: {error.errors()[0]['msg']}") from None
    source = tau2_source(domain, called)
    every = list(tasks)
    # tau2's database has all of its tables and no others, or its hash is not ours.
    if odd := sorted({each.name for each in domain.tables} ^ set(domain.records)):
        raise UsageError(
            f"{domain.name}: records: tables and records differ in {', '.join(odd)}; give a table "
            "without records an empty one"
        )
    splits: dict[str, list[str]] = {ALL: []}
    for task in every:
        if not task.world.expected:
            raise UsageError(f"{domain.name}: {task.task_id}: expected is empty: replay the task")
        if task.task_id in splits[ALL]:
            raise UsageError(f"{domain.name}: {task.task_id} is there twice")
        splits[ALL].append(task.task_id)
        splits.setdefault(task.split, []).append(task.task_id)
    data, package = folder / DATA / called, folder / PACKAGE / called
    for each in (data, package):
        each.mkdir(parents=True, exist_ok=True)
    _dump(data / "tasks.json", [tau2_task(task, called) for task in every])
    _dump(data / "split_tasks.json", splits)
    _dump(data / "db.json", domain.records)
    _dump(data / "expected.json", {task.task_id: task.world.expected for task in every})
    (data / "policy.md").write_text(domain.policy, encoding="utf-8")
    source |= {"__init__.py": "", "toolkit.py": domain.toolkit}
    for file, text in source.items():
        (package / file).write_text(text, encoding="utf-8")


def tau2_task(task: DomainTask, name: str) -> dict[str, Any]:
    """Return a task in tau2's form; `name` is the domain's name there."""
    scenario, task_id = task.world.scenario, task.task_id
    actions = [
        {"action_id": f"{task_id}_{number}", "name": each.name, "arguments": each.arguments}
        for number, each in enumerate(task.world.actions)
    ]
    facts = [each.replace(",", "") for each in task.world.communicate]
    started = (
        {"initialization_data": {"agent_data": task.world.changed}} if task.world.changed else None
    )
    return {
        "id": task_id,
        "description": {"purpose": f"template {task.template}"},
        "user_scenario": {
            "persona": scenario.persona or None,
            "instructions": {
                "domain": name,
                "reason_for_call": scenario.reason,
                "known_info": scenario.known or None,
                "unknown_info": scenario.unknown or None,
                "task_instructions": scenario.instructions or NOTHING_ELSE,
            },
        },
        "ticket": scenario.text,
        "initial_state": started,
        "evaluation_criteria": {
            "actions": [{**each, "requestor": "assistant"} for each in actions],
            "communicate_info": facts,
            "nl_assertions": [],
            "reward_basis": ["DB", "COMMUNICATE"] if facts else ["DB"],
        },
    }


def _dump(file: Path, value: Any) -> None:
    # ASCII, because tau2 opens its files in the locale's encoding.
    file.write_text(json.dumps(value, sort_keys=True, indent=1) + "\n")
