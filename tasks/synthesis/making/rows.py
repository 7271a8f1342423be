"""The rows of `tasks` and `gate_verdicts` of an instance's candidates."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tutti.storage import now, to_arrow
from tutti.tasks.synthesis.domains import DomainTask
from tutti.tasks.synthesis.gating import GATES

TASK_SET = "task_set_id"
POSITIONS = {name: place for place, name in enumerate(GATES, 1)}


def task_rows(judged: Sequence[Mapping[str, Any]], family: str) -> pa.Table:
    """A row of `tasks` a candidate; `task_set_id` is null until it is known."""
    return to_arrow("tasks", [_task_row(row, family) for row in judged])


def verdict_rows(
    judged: Sequence[Mapping[str, Any]], positions: Mapping[str, int] = POSITIONS
) -> pa.Table:
    """A row of `gate_verdicts` for each gate that a candidate was shown to."""
    found = [each for row in judged for each in verdicts_of(row, positions)]
    return to_arrow("gate_verdicts", found)


def with_task_set(table: pa.Table, task_set_id: str) -> pa.Table:
    """The rows with their task set."""
    place = table.schema.get_field_index(TASK_SET)
    return table.set_column(place, table.schema.field(place), pa.repeat(task_set_id, len(table)))


def _task_row(row: Mapping[str, Any], family: str) -> dict[str, Any]:
    task = DomainTask.model_validate(row["task"])
    return {
        "task_id": row["task_id"],
        "family": family,
        "template": task.template,
        "split": task.split,
        "question": task.question,
        "answer": "; ".join(task.communicate),
        "slots": json.dumps(task.slots | task.found, sort_keys=True),
        "sources": list(task.entities),
        "difficulty": json.dumps(task.difficulty, sort_keys=True),
        "status": "accepted" if row["accepted"] else "rejected",
        "reason": "" if row["accepted"] else f"{row['gates'][-1]}: {row['reason']}",
        "gated_at": now(),
    }


def verdicts_of(
    row: Mapping[str, Any], positions: Mapping[str, int] = POSITIONS
) -> Iterator[dict[str, Any]]:
    """The rows of `gate_verdicts` of a candidate, without their task set.

    `row`: task_id, accepted, the gates that it was shown to, what each measured, and the reason of
    the last one where it was rejected. `positions`: the gates' places, from 1.
    """
    at, last = now(), len(row["gates"]) - 1
    for place, gate in enumerate(row["gates"]):
        passed = row["accepted"] or place < last
        yield {
            "task_id": row["task_id"],
            "gate": gate,
            "position": positions.get(gate, len(positions) + 1),
            "passed": passed,
            "reason": "" if passed else row["reason"],
            "measured": row["measured"][place],
            "gated_at": at,
        }
