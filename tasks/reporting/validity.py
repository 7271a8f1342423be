"""What limits a report's accuracies: cut replies, rows without a scorer, scorers that disagree.

In: a connection of `focus`. Out: warnings, and `ScorerUse` rows: a report shows each attempt's
newest verdict (view `counted`). A reply that ends by length has no end, so its answer is
often missing: a low accuracy then measures `sampling.max_tokens`. Rows that were generated without
a scorer are neither right nor wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tutti.tasks.reporting.text.numbers import count
from tutti.tasks.scoring.published import WHOSE
from tutti.tasks.sweeps.results import rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_CUT = 0.01
"""Of a cell's replies: a larger share that ends by length is said."""
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
    """A sentence for each kind of such cells that the report has."""
    return [*_unscored(focused), *_truncated(focused)]


def _unscored(focused: "DuckDBPyConnection") -> Sequence[str]:
    found = dict.fromkeys(row["benchmark"] for row in rows(focused, UNSCORED_SQL))
    if not found:
        return []
    return [
        f"No attempt of {', '.join(found)} was scored: accuracies, right answers and what is made "
        "of them say nothing there. `tutti score` scores stored replies."
    ]


def _truncated(focused: "DuckDBPyConnection") -> Sequence[str]:
    """The cell with most replies that were cut off, if any has more than `MOST_CUT`."""
    found = rows(focused, TRUNCATED_SQL, most=MOST_CUT)
    if not found:
        return []
    worst = found[0]
    where = "{benchmark}, {model}, {policy} at {concurrency}".format(**worst)
    more = f", and more than 1 % in {len(found) - 1} more cells" if len(found) > 1 else ""
    return [
        f"Replies were cut off by their length limit: {count(worst['cut'])} of "
        f"{count(worst['n'])} ({worst['cut'] / worst['n']:.1%}) in {where}{more}. Their answers "
        "may be missing: raise sampling.max_tokens."
    ]


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
    """Attempts that it scored."""
    differing: int
    """Of those, attempts with another verdict in this report."""
    first_at: datetime | None
    last_at: datetime | None

    @property
    def name(self) -> str:
        """``numeric 1``."""
        return self.scorer if self.version is None else f"{self.scorer} {self.version}"

    @property
    def whose(self) -> str:
        """Whose rule it follows; empty where a benchmark has one rule only."""
        return WHOSE.get(self.scorer) or ""


def scorer_uses(focused: "DuckDBPyConnection") -> list[ScorerUse]:
    """The scorers of the report's attempts, the first used first."""
    return [ScorerUse(**row) for row in rows(focused, SCORERS_SQL)]


def scorer_findings(uses: Sequence[ScorerUse]) -> list[str]:
    """Who gave the verdicts, and which scores disagree with those shown."""
    agreeing = [use for use in uses if use.differing == 0]
    sentences = []
    if agreeing:
        by = ", ".join(
            f"{use.name}{_aside(use.whose, f'n = {count(use.n)}, {_days(use)}')}"
            for use in agreeing
        )
        sentences.append(f"Scored by {by}.")
    return sentences + [
        f"{use.name}{_aside(use.whose, _days(use))} judges {count(use.differing)} of "
        f"{count(use.n)} attempts otherwise; this report shows the newest verdict "
        "of each attempt."
        for use in uses
        if use.differing
    ]


def _aside(*parts: str) -> str:
    """What is known, in brackets after the name; nothing if nothing is."""
    known = "; ".join(part.removesuffix(", ") for part in parts if part)
    return f" ({known})" if known else ""


def _days(use: ScorerUse) -> str:
    """The days of its scores; empty if they have no time."""
    ends = (use.first_at, use.last_at)
    return " to ".join(dict.fromkeys(f"{each:%Y-%m-%d}" for each in ends if each is not None))
