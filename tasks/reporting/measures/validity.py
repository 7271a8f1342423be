"""Limits of a report's accuracies: cut replies, rows without a scorer, scorers that disagree.

In: a connection of `focus`. Out: warnings, and `ScorerUse` rows: a report shows each attempt's
newest verdict (view `counted`). The answer of a reply that ends by length is often missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tutti.tasks.reporting.measures.numbers import count
from tutti.tasks.scoring.published import WHOSE
from tutti.tasks.sweeps.results import rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_CUT = 0.01
"""A larger share of a cell's replies that ends by length is an alarm."""
# `paced` has replies of a fixed length on purpose. Limits are named as the requests had them.
TRUNCATED_SQL = """
select c.benchmark, c.model, c.policy, c.concurrency, count(*) as n,
       count(*) filter (finish_reason in ('length', 'max_tokens')) as cut
from calls join cells c using (cell_id)
where calls.role = 'orchestrator' and calls.status = 'ok' and finish_reason is not null
  and c.benchmark <> 'paced'
group by c.cell_id, c.benchmark, c.model, c.policy, c.concurrency
having cut > $most * n
order by cut / n desc, c.benchmark, c.model, c.policy, c.concurrency
"""


UNSCORED_SQL = """
select c.benchmark from attempts a join cells c using (cell_id)
     left join counted k on k.cell_id = a.cell_id and k.attempt_id = a.attempt_id
where a.status = 'ok'
group by c.cell_id, c.benchmark having count(k.correct) = 0 and count(k.score) = 0
order by c.benchmark
"""


def validity_alarms(focused: "DuckDBPyConnection") -> Sequence[str]:
    """Sentences about cells without a score, and about the one with most replies that were cut off,
    if any has more than `MOST_CUT`."""
    alarms = []
    if unscored := dict.fromkeys(row["benchmark"] for row in rows(focused, UNSCORED_SQL)):
        alarms.append(
            f"No attempt of {', '.join(unscored)} was scored: accuracies, right answers and what "
            "is made of them say nothing there. `tutti score` scores stored replies."
        )
    if cells := rows(focused, TRUNCATED_SQL, most=MOST_CUT):
        worst = cells[0]
        where = "{benchmark}, {model}, {policy} at {concurrency}".format(**worst)
        more = f", and more than 1 % in {len(cells) - 1} more cells" if len(cells) > 1 else ""
        alarms.append(
            f"Replies were cut off by their length limit: {count(worst['cut'])} of "
            f"{count(worst['n'])} ({worst['cut'] / worst['n']:.1%}) in {where}{more}. Their "
            "answers may be missing: raise sampling.max_tokens."
        )
    return alarms


# Of each attempt and scorer version the newest score; imported ones may have no time.
SCORERS_SQL = """
with newest as (
    select attempt_id, scorer, scorer_version,
           arg_max(correct, coalesce(epoch(scored_at), 0)) as correct, max(scored_at) as scored_at
    from scores where correct is not null group by attempt_id, scorer, scorer_version
)
select scorer, scorer_version as version, count(*) as n,
       count(*) filter (n.correct is distinct from a.correct) as differing,
       min(n.scored_at) as first_at, max(n.scored_at) as last_at
from newest n join counted a using (attempt_id)
group by all order by first_at, scorer, version
"""


@dataclass(frozen=True)
class ScorerUse:
    """One scorer in one version."""

    scorer: str
    version: str | None
    """None for a program's own score that was imported without one."""
    n: int
    differing: int
    """Scored attempts whose verdict in this report is another."""
    first_at: datetime | None
    last_at: datetime | None

    @property
    def name(self) -> str:
        """``numeric 1``."""
        return self.scorer if self.version is None else f"{self.scorer} {self.version}"

    @property
    def details(self) -> str:
        """In brackets, whose rule it follows where a benchmark has several, the number of attempts
        whose verdict is its own, and the days of its scores, if they have a time."""
        ends = (self.first_at, self.last_at)
        days = dict.fromkeys(f"{each:%Y-%m-%d}" for each in ends if each is not None)
        n = "" if self.differing else f"n = {count(self.n)}"
        known = ", ".join(part for part in (n, " to ".join(days)) if part)
        parts = [part for part in (WHOSE.get(self.scorer), known) if part]
        return f" ({'; '.join(parts)})" if parts else ""


def scorer_uses(focused: "DuckDBPyConnection") -> list[ScorerUse]:
    """Return the scorers of the report's attempts, in order of first use."""
    return [ScorerUse(**row) for row in rows(focused, SCORERS_SQL)]


def scorer_findings(uses: Sequence[ScorerUse]) -> list[str]:
    """Sentences about the scorers, and about scores that disagree with those shown."""
    agreeing = ", ".join(use.name + use.details for use in uses if not use.differing)
    sentences = [f"Scored by {agreeing}."] if agreeing else []
    return sentences + [
        f"{use.name}{use.details} judges {count(use.differing)} of {count(use.n)} attempts "
        "otherwise; this report shows the newest verdict of each attempt."
        for use in uses
        if use.differing
    ]
