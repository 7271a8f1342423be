"""Scores by model and family of tasks, or subset of a benchmark, over one sweep or several.

In: a store's connection and sweep ids. Out: `FamilyScore` rows. A subset is the value of the items'
attribute that the benchmark names (`Benchmark.subsets`), such as the subject, or of an attribute
`subset_for_metrics`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tutti.tasks.reporting.measures.numbers import ACCURACY, MEAN_SCORE
from tutti.tasks.scoring.statistics import mean_interval
from tutti.tasks.sweeps.results import CURRENT, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ALL = "all families"
# A task may be in several sets, so its family is looked up once a task id: in one of a benchmark
# first, where a set that was made is measured as one.
FAMILIES_SQL = """
    select task_id, first(family order by template is not null, family) as family
    from tasks where family is not null group by task_id
"""
SUBSETS_SQL = """
    select task_id, min(family || '-' || subset) as family
    from (select task_id, family, coalesce(if(attribute is null, null,
                     json_extract_string(slots, attribute)), slots ->> 'subset_for_metrics')
                     as subset
          from tasks left join (select artifact_id, detail ->> '$.subsets' as attribute
                                from artifacts where kind = 'task_set')
               on artifact_id = task_set_id)
    where subset != '' group by task_id
"""
SCORES_SQL = f"""
with families as ({{families}}),
scored as (
    -- A cell's model has the name that the registry gave it last; an import may lack cells.
    select a.* replace (coalesce(c.model, a.model) as model),
           list_position($sweeps, a.sweep_id) as nth
    from counted a left join cells c using (cell_id)
    where list_contains($sweeps, a.sweep_id) and coalesce(a.repeat, 0) >= 0
        and coalesce(a.cell_id, '') not in (select cell_id from cells where not ({CURRENT}))
),
models as (
    select model, min(nth) as nth, min(started_at) as began from scored group by model
),
by_task as (
    select model, coalesce(f.family, 'unknown') as family, task_id, count(*) as n,
           count(*) filter (is_right) as correct,
           bool_and(measure = '{MEAN_SCORE}') as is_mean, list(headline_score) as scores
    from scored s {{join}} join families f using (task_id)
    group by model, coalesce(f.family, 'unknown'), task_id
)
select t.model, t.family, sum(n)::bigint as n, sum(correct)::bigint as correct,
       if(bool_and(is_mean), '{MEAN_SCORE}', '{ACCURACY}') as measure,
       list(scores order by task_id) as scores
from by_task t join models m on m.model = t.model
group by t.model, t.family order by any_value(m.nth), any_value(m.began), t.model, t.family
"""


@dataclass(frozen=True)
class FamilyScore:
    """A model's score on one family of tasks, with its 95 % interval (`mean_interval`)."""

    model: str
    family: str
    n: int
    correct: int
    accuracy: float
    """The mean over tasks of a task's mean headline score."""
    low: float | None
    """Ends of the interval; None for one task with a score outside 0 to 1."""
    high: float | None
    measure: str
    """The name of `accuracy`: ACCURACY or MEAN_SCORE."""
    scores: Sequence[Sequence[float]] = field(default=(), repr=False)
    """Headline scores by task."""


def family_scores(connection: "DuckDBPyConnection", *sweep_ids: str) -> list[FamilyScore]:
    """Return accuracy by model, in running order, and family; one row for all sweeps.

    The family of a task that the `tasks` table lacks is `unknown`.
    """
    sql = SCORES_SQL.format(families=FAMILIES_SQL, join="left")
    return [_score(**row) for row in rows(connection, sql, sweeps=list(sweep_ids))]


def subset_scores(connection: "DuckDBPyConnection", *sweep_ids: str) -> list[FamilyScore]:
    """Scores by model and subset, `family` being ``benchmark-subset``; empty without subsets."""
    sql = SCORES_SQL.format(families=SUBSETS_SQL, join="")
    return [_score(**row) for row in rows(connection, sql, sweeps=list(sweep_ids))]


def all_families(scores: Sequence[FamilyScore]) -> list[FamilyScore]:
    """Return one row per model, over the tasks of all of its families; its measure is the mean
    score if that of every family is."""
    totals = []
    for model in dict.fromkeys(s.model for s in scores):
        families = [s for s in scores if s.model == model]
        is_mean = all(s.measure == MEAN_SCORE for s in families)
        tasks = [task for s in families for task in s.scores]
        n, correct = sum(s.n for s in families), sum(s.correct for s in families)
        measure = MEAN_SCORE if is_mean else ACCURACY
        totals.append(_score(model, ALL, n, correct, measure, tasks))
    return totals


def _score(
    model: str, family: str, n: int, correct: int, measure: str, scores: Sequence[Sequence[float]]
) -> FamilyScore:
    mean = mean_interval(scores)
    return FamilyScore(model, family, n, correct, *mean[:3], measure, scores)
