"""Scores of cells with several trials a task: avg@n, pass@k, pass^k, best of k and majority@k.

In: a connection of `focus`. Out: `TrialScores` rows by cell. The SQL macros `avg_at_n`,
`pass_at_k`, `pass_hat_k`, `best_of_k` and `majority_at_k` give the same values.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti.tasks.reporting.focus import rows_by
from tutti.tasks.scoring.metrics import avg_at_n, best_of_k, majority_at_k, pass_at_k, pass_hat_k

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

EVERY_K = 8  # up to this every k has a row; above it powers of two and the number of trials
# Cells with one trial a task are left out.
TASKS_SQL = """
select cell_id, list(is_right::int::double) as right, list(headline_score) as scores,
       list(answer) as answers
from counted group by cell_id, task_id
qualify max(count(*)) over (partition by cell_id) > 1
"""


@dataclass(frozen=True)
class TrialScores:
    """What `k` trials of a task reach: shares over the cell's tasks, with 95 % intervals.

    An interval is None for fewer than two tasks.
    """

    k: int
    n: int
    """Tasks with at least `k` counted trials."""
    n_left_out: int
    """Tasks with fewer; they are in no value."""
    pass_at_k: float
    """Chance that at least one of k trials is right; avg@n for k = 1."""
    pass_at_k_low: float | None
    pass_at_k_high: float | None
    pass_hat_k: float
    """Chance that all of k trials are right."""
    pass_hat_k_low: float | None
    pass_hat_k_high: float | None
    majority_at_k: float
    """Expected score of the answer that most of k trials give."""
    majority_at_k_low: float | None
    majority_at_k_high: float | None
    avg_at_n: float
    """Mean over the tasks of the mean headline score of all their trials."""
    avg_at_n_low: float | None
    avg_at_n_high: float | None
    best_of_k: float
    """Expected highest headline score of k trials; pass@k where that is right or wrong."""
    best_of_k_low: float | None
    best_of_k_high: float | None


Trial = tuple[str | None, float, float]
"""Answer, whether it is right (0 or 1), headline score."""


def trial_scores(focused: "DuckDBPyConnection") -> dict[str, tuple[TrialScores, ...]]:
    """Scores for k = 1, 2, … by cell; a cell with one trial a task is absent."""
    found = {}
    for cell_id, tasks in rows_by(focused, "cell_id", TASKS_SQL).items():
        groups = [
            list(zip(row["answers"], row["right"], row["scores"], strict=True)) for row in tasks
        ]
        found[cell_id] = tuple(_scores(groups, k) for k in _ks(max(map(len, groups))))
    return found


def _ks(most: int) -> list[int]:
    powers = [2**i for i in range(most.bit_length())]
    return sorted({*range(1, min(most, EVERY_K) + 1), *powers, most})


def _scores(groups: list[list[Trial]], k: int) -> TrialScores:
    counted = [group for group in groups if len(group) >= k]
    right = [[right for _, right, _ in group] for group in counted]
    scores = [[score for *_, score in group] for group in counted]
    some, every = pass_at_k(right, k), pass_hat_k(right, k)
    majority = majority_at_k([[(answer, r) for answer, r, _ in group] for group in counted], k)
    return TrialScores(
        k,
        len(counted),
        len(groups) - len(counted),
        *some[:3],
        *every[:3],
        *majority[:3],
        *avg_at_n(scores)[:3],
        *best_of_k(scores, k)[:3],
    )
