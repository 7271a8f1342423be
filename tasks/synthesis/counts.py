"""Counts of a set's accepted and rejected tasks, and the reasons.

In: a task set's id. Out: rows of counts, for the terminal and for a flow run's artifacts.
"""

from collections.abc import Sequence
from typing import Any

from tutti.storage import Home, query

GATES_SQL = """
select gate, count(*) as shown, count(*) filter (not passed) as dropped,
    median(measured) as measured, left(min(reason) filter (not passed), 60) as example
from gate_verdicts where task_set_id = $id group by gate, position order by position
"""
"""For each gate in its order, of the set $id: how many tasks it was shown, how many it dropped, the
median of what it measured, and the reason of one drop."""
REASONS_SHOWN = 50
"""Rows of an artifact: the oracle's error texts can differ from task to task."""


def count_tasks(home: Home, task_set_id: str) -> list[dict[str, Any]]:
    """Count tasks by family, split and status."""
    return query(
        "select family, split, status, count(*) as n from tasks "
        "where task_set_id = $task_set group by all order by all",
        home,
        {"task_set": task_set_id},
    )


def count_reasons(home: Home, task_set_id: str) -> list[dict[str, Any]]:
    """Count tasks by family, split, status and the reason of a rejection; return the most frequent
    `REASONS_SHOWN`."""
    return query(
        "select family, split, status, coalesce(reason, '') as reason, count(*) as n from tasks "
        "where task_set_id = $task_set group by all "
        f"order by n desc, family, split, status, reason limit {REASONS_SHOWN}",
        home,
        {"task_set": task_set_id},
    )


def count_gates(home: Home, task_set_id: str) -> list[dict[str, Any]]:
    """Return for each gate in order the number of tasks it judged and dropped, and the reason of
    one of them. Empty for a set that was not synthesized, or is older than stored verdicts."""
    return query(GATES_SQL, home, {"id": task_set_id})


def gate_lines(gates: Sequence[dict[str, Any]]) -> str:
    """Format the rows of `count_gates` as a table of text."""
    head = f"{'gate':14} {'shown':>7} {'dropped':>7}  for example"
    rows = [f"{g['gate']:14} {g['shown']:7} {g['dropped']:7}  {g['example'] or ''}" for g in gates]
    return "\n".join([head, *(row.rstrip() for row in rows)])


def count_lines(counts: Sequence[dict[str, Any]]) -> str:
    """Format the rows of `count_tasks` as a table of text."""
    row = "{family:16} {split:10} {status:10} {n:5}"
    return "\n".join(row.format(**each) for each in counts)
