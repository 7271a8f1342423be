"""Scores by model and family of tasks, or subset of a benchmark, over one sweep or several.

In: a store's connection and sweep ids. Out: `FamilyScore` rows. A subset is the value of the items'
attribute that the benchmark names (`Benchmark.subsets`), such as the subject, or of an attribute
`subset_for_metrics`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tutti.tasks.reporting.focus import CURRENT, rows
from tutti.tasks.reporting.scores.headline import (
    ACCURACY,
    COUNTED,
    MEAN_SCORE,
    SCORE,
    mean_score,
)
from tutti.tasks.reporting.summary import worth
from tutti.tasks.scoring.statistics import wilson

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ALL = "all families"
# One task may be in several task sets, so its family is looked up once a task id.
FAMILIES_SQL = """
    select task_id, min(family) as family from tasks where family is not null group by task_id
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
           count(*) filter (coalesce(s.correct, false)) as correct,
           bool_and(coalesce(measure = '{MEAN_SCORE}', false)) as is_mean,
           list({SCORE}) as scores
    from scored s {{join}} join families f using (task_id) left join headlines using (cell_id)
    group by model, coalesce(f.family, 'unknown'), task_id
),
totals as (
    select model, family, sum(n)::bigint as n, sum(correct)::bigint as correct, count(*) as tasks,
           if(bool_and(is_mean), list(scores order by task_id), []) as scores
    from by_task group by model, family
)
select t.model, t.family, t.n, t.correct, t.tasks, t.scores,
       sum(power(b.correct - t.correct / t.n * b.n, 2)) as spread
from totals t join by_task b on b.model = t.model and b.family = t.family
     join models m on m.model = t.model
group by all order by any_value(m.nth), any_value(m.began), t.model, t.family
"""


@dataclass(frozen=True)
class FamilyScore:
    """A model's score on one family of tasks, with its 95 % interval: Wilson's of accuracy."""

    model: str
    family: str
    n: int
    correct: int
    accuracy: float
    """The share of right attempts; the mean score where `measure` is that."""
    low: float
    high: float
    n_effective: float
    """Independent attempts that the n are worth: attempts at one task are alike."""
    scores: Sequence[Sequence[float]] = field(default=(), repr=False)
    """Of a mean score the scores by task."""

    @property
    def measure(self) -> str:
        """What `accuracy` is: ACCURACY or MEAN_SCORE."""
        return MEAN_SCORE if self.scores else ACCURACY


def family_scores(connection: "DuckDBPyConnection", sweep_id: str) -> list[FamilyScore]:
    """Accuracy by model, in the order they ran, and family.

    The family of a task that the `tasks` table does not have is `unknown`.
    """
    return pooled_family_scores(connection, [sweep_id])


def pooled_family_scores(
    connection: "DuckDBPyConnection", sweep_ids: Sequence[str]
) -> list[FamilyScore]:
    """Like `family_scores` over several sweeps; a model in two of them has one row a family."""
    return _scores(connection, SCORES_SQL.format(families=FAMILIES_SQL, join="left"), sweep_ids)


def subset_scores(connection: "DuckDBPyConnection", sweep_ids: Sequence[str]) -> list[FamilyScore]:
    """Scores by model and subset, `family` being ``benchmark-subset``; empty without subsets."""
    return _scores(connection, SCORES_SQL.format(families=SUBSETS_SQL, join=""), sweep_ids)


def _scores(
    connection: "DuckDBPyConnection", sql: str, sweep_ids: Sequence[str]
) -> list[FamilyScore]:
    return [
        _mean(row["model"], row["family"], row["n"], row["correct"], row["scores"])
        if row["scores"]
        else _score(row["model"], row["family"], row["n"], row["correct"], worth(row))
        for row in rows(connection, sql, sweeps=list(sweep_ids))
    ]


def all_families(scores: Sequence[FamilyScore]) -> list[FamilyScore]:
    """One row a model, over all of its families; of families with different measures the share of
    right attempts."""
    graded = {s.model for s in scores} - {s.model for s in scores if s.measure == ACCURACY}
    means = {
        model: [s for s in scores if s.model == model]
        for model in dict.fromkeys(s.model for s in scores)
        if model in graded
    }
    totals: dict[str, tuple[int, int, float]] = {}
    for score in scores:
        n, correct, alike = totals.get(score.model, (0, 0, 0.0))
        totals[score.model] = n + score.n, correct + score.correct, alike + score.n_effective
    return [
        _mean(model, ALL, n, correct, [each for s in means[model] for each in s.scores])
        if model in means
        else _score(model, ALL, n, correct, alike)
        for model, (n, correct, alike) in totals.items()
    ]


def _mean(
    model: str, family: str, n: int, correct: int, scores: Sequence[Sequence[float]]
) -> FamilyScore:
    found = mean_score(scores)
    low, high = found.low, found.high
    if low is None or high is None:  # one task counts once; scorers that declare a mean give 0 to 1
        low, high = wilson(min(1.0, max(0.0, found.value)), 1) or (0.0, 1.0)
    tasks = float(len(scores))
    return FamilyScore(model, family, n, correct, found.value, low, high, tasks, scores)


def _score(model: str, family: str, n: int, correct: int, alike: float) -> FamilyScore:
    interval = wilson(correct / n * alike, alike)
    assert interval is not None, f"a group without rows: {model} {family}"
    return FamilyScore(model, family, n, correct, correct / n, *interval, alike)
