"""A generated set with recorded attempts, as a sweep leaves them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tutti import storage
from tutti.tasks.synthesis.domains import DomainTask, read_domain_folder
from tutti.tasks.synthesis.making.by_program import DomainRequest, DomainSource
from tutti.tasks.task_sets import make_set

Call = tuple[str, dict[str, Any], Any]
"""(tool, arguments, result)"""


@dataclass(frozen=True)
class Attempt:
    """An attempt at a task: its calls, its texts, and its correctness."""

    task: DomainTask
    said: str
    calls: Sequence[Call] = ()
    correct: bool = False
    model: str = "m"


async def lending_set(catalog: storage.Catalog, size: int = 6) -> tuple[str, list[DomainTask]]:
    """Return a set of the lending desk and its tasks."""
    request = DomainRequest(domain="lending", size=size)
    made = await make_set(DomainSource(request), catalog)
    (folder,) = catalog.home.artifact_folder(made).glob("lending-*")
    return made, list(read_domain_folder(folder)[1])


def enter(catalog: storage.Catalog, attempts: Sequence[Attempt]) -> None:
    """Store rows of attempts, messages, tool_runs and the benchmarks' items; the items are in two
    task sets, as after a sweep with another limit."""
    rows: dict[str, list[dict[str, Any]]] = {"attempts": [], "messages": [], "tool_runs": []}
    ids = list(dict.fromkeys(each.task.task_id for each in attempts))
    for number, each in enumerate(attempts):
        key = {"attempt_id": f"a{number}"}
        item = {"task_id": each.task.task_id, "status": "ok", "model": each.model}
        rows["attempts"].append(key | item | {"correct": each.correct})
        for step, (name, arguments, result) in enumerate(each.calls, 1):
            run = {"step": step, "name": name, "arguments": json.dumps(arguments)}
            rows["tool_runs"].append(key | run | {"result": json.dumps(result), "status": "ok"})
        said = {"role": "assistant", "content": each.said, "position": 9, "call_id": "c"}
        rows["messages"].append(key | said)
    rows["tasks"] = [
        {"task_set_id": task_set, "task_id": each, "slots": json.dumps({"id": each})}
        for task_set in ("task_set:b", "task_set:c")
        for each in ids
    ]
    storage.commit(catalog, rows)


def verdicts(catalog: storage.Catalog, task_set: str) -> dict[str, dict[str, Any]]:
    """Return the rows of `gate_verdicts` by task."""
    rows = storage.query(
        "select task_id, gate, passed, reason, measured from gate_verdicts where task_set_id = $id",
        catalog.home,
        {"id": task_set},
    )
    return {row.pop("task_id"): row for row in rows}
