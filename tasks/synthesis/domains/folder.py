"""A domain and its tasks as files that can be read, edited and versioned.

In: a folder. Out: the domain and its tasks, checked. ``domain.json`` (tables, tools, rules,
lineage), ``db.json``, ``toolkit.py``, ``policy.md`` (written for readers) and ``tasks.jsonl``.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tutti.errors import UsageError
from tutti.tasks.synthesis.domains.domain import Domain, DomainTask, changed_task
from tutti.tasks.task_sets import TASKS, first_error, read_tasks, write_tasks

SPEC, DATABASE, TOOLKIT, POLICY = "domain.json", "db.json", "toolkit.py", "policy.md"
SPLITS = ("test", "validation", "train")
DOMAIN_TASK: TypeAdapter[DomainTask] = TypeAdapter(DomainTask)


def write_domain_folder(folder: Path, domain: Domain, tasks: Iterable[DomainTask]) -> None:
    """Write a domain's files into a folder; the same domain gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = domain.model_dump(mode="json", exclude={"records", "toolkit"})
    (folder / SPEC).write_text(_json(spec, indent=1) + "\n")
    (folder / DATABASE).write_text(_json(domain.records, indent=1) + "\n")
    (folder / TOOLKIT).write_text(domain.toolkit)
    (folder / POLICY).write_text(domain.policy)
    write_tasks(folder / TASKS, tasks)


def read_domain_folder(folder: Path) -> tuple[Domain, Iterator[DomainTask]]:
    """The domain in `folder`, and its tasks one by one. Raises UsageError with file and field."""
    for name in (SPEC, DATABASE, TOOLKIT, TASKS):
        if not (folder / name).is_file():
            raise UsageError(f"{folder} is no domain: it has no {name}")
    spec = _object(folder / SPEC) | {"records": _object(folder / DATABASE)}
    spec["toolkit"] = (folder / TOOLKIT).read_text()
    try:
        domain = Domain.model_validate(spec)
    except ValidationError as error:
        raise UsageError(f"{folder / SPEC}: {first_error(error)}") from None
    return domain, _tasks(folder / TASKS, domain)


def domain_folders(folder: Path) -> list[Path]:
    """Return `folder` itself, or for a set over several databases the folders in it, in order.
    Raises UsageError if neither has a domain."""
    if (folder / SPEC).is_file():
        return [folder]
    found = sorted(each.parent for each in folder.glob(f"*/{SPEC}"))
    if not found:
        raise UsageError(f"{folder} is no domain: it has no {SPEC}, nor has a folder in it")
    return found


def _tasks(file: Path, domain: Domain) -> Iterator[DomainTask]:
    for number, task in enumerate(read_tasks(file, DOMAIN_TASK), 1):
        if task.world is None or task.split not in SPLITS:
            wrong = "world: is missing" if task.world is None else f"split: {task.split!r}"
            raise UsageError(f"{file}, line {number}: {wrong}")
        of = domain.domain_id
        yield task if task.world.domain == of else changed_task(task, domain=of)


def _object(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except ValueError as error:
        raise UsageError(f"{file}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{file}: not an object")
    return found


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)
