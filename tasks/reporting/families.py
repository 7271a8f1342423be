"""Accuracy by model and family of tasks, over one sweep or several.

In: a store's connection and sweep ids. Out: `FamilyScore` rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti.tasks.reporting.focus import CURRENT, rows
from tutti.tasks.reporting.summary import COUNTED, worth
from tutti.tasks.scoring.statistics import wilson

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# One task may be in several task sets, so its family is looked up once a task id.
FAMILY_SQL = f"""
with families as (
    select task_id, min(family) as family from tasks where family is not null group by task_id
),
named as (
    -- A cell's model has the name that the registry gave it last; an import may lack cells.
    select a.* replace (coalesce(c.model, a.model) as model)
    from attempts a left join cells c using (cell_id)
),
scored as (
    select *, list_position($sweeps, sweep_id) as nth from named
    where list_contains($sweeps, sweep_id) and {COUNTED} and coalesce(repeat, 0) >= 0
        and coalesce(cell_id, '') not in (select cell_id from cells where not ({CURRENT}))
),
models as (
    select model, min(nth) as nth, min(started_at) as began from scored group by model
),
by_task as (
    select model, coalesce(f.family, 'unknown') as family, task_id, count(*) as n,
           count(*) filter (coalesce(s.correct, false)) as correct
    from scored s left join families f using (task_id) group by all
),
totals as (
    select model, family, sum(n)::bigint as n, sum(correct)::bigint as correct, count(*) as tasks
    from by_task group by all
)
select t.model, t.family, t.n, t.correct, t.tasks,
       sum(power(b.correct - t.correct / t.n * b.n, 2)) as spread
from totals t join by_task b on b.model = t.model and b.family = t.family
     join models m on m.model = t.model
group by all order by any_value(m.nth), any_value(m.began), t.model, t.family
"""


@dataclass(frozen=True)
class FamilyScore:
    """A model's accuracy (0 to 1) on one family of tasks, with Wilson's 95 % interval."""

    model: str
    family: str
    n: int
    correct: int
    accuracy: float
    low: float
    high: float
    n_effective: float
    """Independent attempts that the n are worth: attempts at one task are alike."""


def family_scores(connection: "DuckDBPyConnection", sweep_id: str) -> list[FamilyScore]:
    """Accuracy by model, in the order they ran, and family.

    The family of a task that the `tasks` table does not have is `unknown`.
    """
    return pooled_family_scores(connection, [sweep_id])


def pooled_family_scores(
    connection: "DuckDBPyConnection", sweep_ids: Sequence[str]
) -> list[FamilyScore]:
    """Like `family_scores` over several sweeps; a model in two of them has one row a family."""
    found = rows(connection, FAMILY_SQL, sweeps=list(sweep_ids))
    return [
        _score(row["model"], row["family"], row["n"], row["correct"], worth(row)) for row in found
    ]


def all_families(scores: Sequence[FamilyScore]) -> list[FamilyScore]:
    """One row a model, over all of its families."""
    totals: dict[str, tuple[int, int, float]] = {}
    for score in scores:
        n, correct, alike = totals.get(score.model, (0, 0, 0.0))
        totals[score.model] = n + score.n, correct + score.correct, alike + score.n_effective
    return [_score(model, "all families", *counts) for model, counts in totals.items()]


def _score(model: str, family: str, n: int, correct: int, alike: float) -> FamilyScore:
    interval = wilson(correct / n * alike, alike)
    assert interval is not None, f"a group without rows: {model} {family}"
    return FamilyScore(model, family, n, correct, correct / n, *interval, alike)
