"""Which scorers, in which versions, scored a report's attempts, and which of them disagree.

In: a connection of `focus`. Out: `ScorerUse` rows. A report shows each attempt's newest verdict
(view `counted`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tutti.tasks.reporting.focus import rows
from tutti.tasks.reporting.text.numbers import count
from tutti.tasks.scoring.published import whose_rule

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
        return whose_rule(self.scorer) or ""


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
