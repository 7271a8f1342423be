"""How many tasks of a set were accepted and rejected, and why.

In: a task set's id. Out: rows of counts, for the terminal and for a flow run's artifacts.
"""

from collections.abc import Sequence
from typing import Any

from tutti.storage import Home, query

REASONS_SHOWN = 50
"""Rows of an artifact: the oracle's error texts can differ from task to task."""


def count_tasks(home: Home, task_set_id: str) -> list[dict[str, Any]]:
    """Tasks by family, split and status."""
    return query(
        "select family, split, status, count(*) as n from tasks "
        "where task_set_id = $task_set group by all order by all",
        home,
        {"task_set": task_set_id},
    )


def count_reasons(home: Home, task_set_id: str) -> list[dict[str, Any]]:
    """Tasks by family, split, status and the reason of a rejection; the most frequent
    `REASONS_SHOWN`."""
    return query(
        "select family, split, status, coalesce(reason, '') as reason, count(*) as n from tasks "
        "where task_set_id = $task_set group by all "
        f"order by n desc, family, split, status, reason limit {REASONS_SHOWN}",
        home,
        {"task_set": task_set_id},
    )


def count_lines(counts: Sequence[dict[str, Any]]) -> str:
    """The rows of `count_tasks` as a table of text."""
    row = "{family:16} {split:6} {status:10} {n:5}"
    return "\n".join(row.format(**each) for each in counts)
