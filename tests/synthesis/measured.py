"""A set of the lending desk with recorded attempts, for the tests of skills and profiles."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tutti import storage
from tutti.tasks.synthesis import DomainRequest, DomainSource
from tutti.tasks.synthesis.domains import DomainTask, read_domain_folder
from tutti.tasks.task_sets import make_set


async def lending_set(catalog: storage.Catalog, size: int) -> str:
    request = DomainRequest(domain="lending", size=size)
    return await make_set(DomainSource(request), catalog)


def tasks_of(catalog: storage.Catalog, task_set: str) -> list[DomainTask]:
    folders = sorted(catalog.home.artifact_folder(task_set).glob("lending-*"))
    return [task for folder in folders for task in read_domain_folder(folder)[1]]


def enter_attempts(
    catalog: storage.Catalog,
    tasks: Sequence[DomainTask],
    outcomes: Mapping[int, Sequence[bool]],
    model: str = "m",
) -> None:
    """Store attempts at tasks by position, as a run of the set does."""
    items, rows = [], []
    for place, right in outcomes.items():
        item = tasks[place].task_id
        slots = {"id": tasks[place].task_id, "template": tasks[place].template}
        items.append({"task_set_id": "b", "task_id": item, "slots": json.dumps(slots)})
        for n, correct in enumerate(right):
            row: dict[str, Any] = {"task_id": item, "status": "ok", "model": model}
            row |= {"attempt_id": f"{model}-{place}-{n}", "correct": correct}
            rows.append(row | {"cost_usd": 0.5, "working_s": 2.0})
    storage.commit(catalog, {"attempts": rows, "tasks": items})
