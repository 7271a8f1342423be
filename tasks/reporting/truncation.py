"""Which cells have replies that were cut off by their length limit.

In: a connection of `focus`. Out: one warning. A reply that ends by length has no end, so its answer
is often missing: a low accuracy then measures `sampling.max_tokens`.
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


def truncation_alarms(focused: "DuckDBPyConnection") -> Sequence[str]:
    """A sentence that names the cell with most such replies, if any has more than `MOST_CUT`."""
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
