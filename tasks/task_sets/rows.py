"""The rows of `tasks` and `gate_verdicts` of judged candidates."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tutti.storage import now
from tutti.tasks.task_sets.task import Task

Row = Mapping[str, Any]
"""A candidate, as `read_part` yields it."""


def task_row(row: Row, task_set_id: str) -> dict[str, Any]:
    """A row of `tasks`; its slots have the task's attributes, too."""
    task: Task = row["task"]
    is_accepted = row["accepted"]
    return {
        "task_set_id": task_set_id,
        "task_id": row["task_id"],
        "status": "accepted" if is_accepted else "rejected",
        "reason": "" if is_accepted else f"{row['gates'][-1]}: {row['reason']}",
        "gated_at": now(),
        "family": task.family,
        "template": task.template or None,
        "split": task.split,
        "question": task.question,
        "answer": task.answer,
        "slots": json.dumps({**task.slots, **task.attributes}, sort_keys=True),
        "sources": list(task.sources),
        "difficulty": json.dumps(task.difficulty, sort_keys=True),
    }


def verdict_rows(row: Row, gates: Sequence[str], task_set_id: str) -> Iterator[dict[str, Any]]:
    """A row of `gate_verdicts` for each gate that a candidate was shown to. `gates`: all of the
    set, in their order."""
    at, last = now(), len(row["gates"]) - 1
    for place, gate in enumerate(row["gates"]):
        passed = row["accepted"] or place < last
        yield {
            "task_set_id": task_set_id,
            "task_id": row["task_id"],
            "gate": gate,
            "position": gates.index(gate) + 1,
            "passed": passed,
            "reason": "" if passed else row["reason"],
            "measured": row["measured"][place],
            "gated_at": at,
        }
