"""Mean scores of cells whose benchmark reports one, with intervals over tasks.

In: a connection of `focus`. Out: `HeadlineScore` by cell, for cells whose measure is the mean
score (view `headlines`); the others report the share of right attempts, which `summary` reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti.tasks.reporting.focus import rows
from tutti.tasks.scoring.statistics import mean_interval

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ACCURACY, MEAN_SCORE = "accuracy", "mean score"
"""Words of `headlines.measure`."""
COUNTED = "status in ('ok', 'limit', 'model_error')"
SCORE = "coalesce(if(isfinite(score), score, null), cast(correct as double), 0)"
"""SQL over `attempts`: a limit or model error without a score has 0."""
TASKS_SQL = f"""
select cell_id, list({SCORE}) as scores
from attempts join headlines using (cell_id)
where measure = '{MEAN_SCORE}' and {COUNTED} group by cell_id, coalesce(task_id, attempt_id)
"""


@dataclass(frozen=True)
class HeadlineScore:
    """The mean over tasks of a task's mean score, in the scorer's unit."""

    value: float
    low: float | None
    """Ends of the 95 % interval over tasks; None for fewer than two."""
    high: float | None
    tasks: int


def headline_scores(focused: "DuckDBPyConnection") -> dict[str, HeadlineScore]:
    """By cell; a cell that reports its accuracy is absent."""
    tasks: dict[str, list[Sequence[float]]] = {}
    for row in rows(focused, TASKS_SQL):
        tasks.setdefault(row["cell_id"], []).append(row["scores"])
    return {cell_id: mean_score(groups) for cell_id, groups in tasks.items()}


def mean_score(groups: Sequence[Sequence[float]]) -> HeadlineScore:
    """Of scores by task. Trials of a task are averaged first: they are no tasks of their own.

    The interval is `statistics.mean_interval`'s: of scores from 0 to 1 Wilson's at the number of
    tasks that would have the error found, of others Student's.
    """
    found = mean_interval(groups)
    return HeadlineScore(found.value, found.low, found.high, found.n)
