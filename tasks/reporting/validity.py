"""What makes a report's accuracies say something else than how good a model is.

In: a connection of `focus`. Out: warnings. A reply that ends by length has no end, so its answer is
often missing: a low accuracy then measures `sampling.max_tokens`. Rows that were generated without
a scorer are neither right nor wrong.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tutti.tasks.reporting.focus import rows
from tutti.tasks.reporting.text.numbers import count

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
