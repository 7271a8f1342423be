"""A cell's intended and actual load, and the client as an instrument.

In: a connection of `focus`. Out: one `Reached` per cell, for its window. A late client measures
itself; `client_fault` has the rule for that.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti.tasks.sweeps.results.tables import rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_LAG_S = 0.05
"""Seconds that the client may add to a time before it counts as late."""
MOST_ADDED = 0.05
"""Share of a step's latency that the client may add to it."""
MOST_CPU = 0.9  # of the one core that an event loop can use
LEAST_HELD = 0.98  # of the sessions asked for

# A step was to start when what its session did before had ended, the first one when the attempt was
# due. What lies between that and the send is the client's own, and a late start of an open loop.
REACHED_SQL = """
with bounds as (
    select cell_id, start_s, end_s, t0 + to_microseconds(cast(start_s * 1e6 as bigint)) as begins,
           t0 + to_microseconds(cast(end_s * 1e6 as bigint)) as ends
    from cell_windows join origins using (cell_id) where start_s is not null
),
lateness as (
    select a.cell_id, quantile_cont(late_s, 0.5) as late_p50_s, quantile_cont(late_s, 0.95)
               as late_p95_s
    from (select cell_id, due_at, (epoch_us(started_at) - epoch_us(due_at)) / 1e6 as late_s
          from attempts where due_at is not null and started_at is not null) a
         join bounds b on a.cell_id = b.cell_id and due_at >= begins and due_at < ends
    group by a.cell_id
),
done as (
    select attempt_id, ended_at as at from calls where status = 'ok' and ended_at is not null
    union all select attempt_id, ended_at from tool_runs where ended_at is not null
    union all select attempt_id, coalesce(due_at, started_at) from attempts
    where coalesce(due_at, started_at) is not null
),
waited as (
    select s.cell_id,
           s.latency_s + (epoch_us(s.sent_at) - epoch_us(d.at)) / 1e6 as latency_s
    from steps s asof join done d on s.attempt_id = d.attempt_id and s.sent_at >= d.at
         join bounds b on s.cell_id = b.cell_id and s.end_s >= b.start_s and s.end_s < b.end_s
),
intended as (
    select cell_id, quantile_cont(latency_s, 0.5) as intended_p50_s,
           quantile_cont(latency_s, 0.95) as intended_p95_s
    from waited group by cell_id
),
client as (
    select m.cell_id,
           quantile_cont(value, 0.99) filter (name = 'client:loop_lag_seconds') as lag_p99_s,
           max(value) filter (name = 'client:loop_lag_seconds') as lag_max_s,
           avg(value) filter (name = 'client:cpu_share') as cpu_share
    from server_metrics m join bounds b on m.cell_id = b.cell_id and "at" >= begins and "at" < ends
    where engine_id = 'client' group by m.cell_id
)
select b.cell_id, late_p50_s, late_p95_s, intended_p50_s, intended_p95_s, lag_p99_s, lag_max_s,
       cpu_share
from bounds b left join lateness using (cell_id) left join intended using (cell_id)
     left join client using (cell_id)
"""


@dataclass(frozen=True)
class Reached:
    """The load that a cell reached in its window; seconds and shares, None is "not known"."""

    late_p50_s: float | None = None
    """Lateness of attempts that were due at a stated moment; None in a closed loop."""
    late_p95_s: float | None = None
    intended_p50_s: float | None = None
    """Step latency from the intended start: since the session had done what was before it."""
    intended_p95_s: float | None = None
    lag_p99_s: float | None = None
    """99th percentile of each second's largest lateness of the client's event loop."""
    lag_max_s: float | None = None
    cpu_share: float | None = None
    """CPU seconds of the client's process a second."""


def reached_loads(focused: "DuckDBPyConnection") -> dict[str, Reached]:
    """The reached load by cell id; a cell without a window has none."""
    return {row.pop("cell_id"): Reached(**row) for row in rows(focused, REACHED_SQL)}


def client_fault(
    found: Reached, asked: int, sessions: float | None, latency_p95_s: float | None
) -> str | None:
    """Why the client was the bottleneck, in words; None where it was not, or is not known.

    In a closed loop it was where the p95 of step latency from the intended start is above that
    from the send (`latency_p95_s`) by more than MOST_ADDED of it and MOST_LAG_S. In any loop it was
    where it used more than MOST_CPU of a core and could not keep the load: fewer than LEAST_HELD of
    the `asked` sessions on average (`sessions`), in an open loop p95 of starts above MOST_LAG_S. A
    late event loop alone is no fault: one late second of thousands changes no figure.
    """
    is_closed = found.late_p95_s is None
    if is_closed and found.intended_p95_s is not None and latency_p95_s is not None:
        added = found.intended_p95_s - latency_p95_s
        if added > max(MOST_LAG_S, MOST_ADDED * latency_p95_s):
            return f"it added {added:.2f} s to the p95 of step latency ({latency_p95_s:.2f} s)"
    if found.cpu_share is None or found.cpu_share <= MOST_CPU:
        return None
    busy = f"it used {found.cpu_share:.0%} of a core"
    if found.late_p95_s is not None:
        late = f"started attempts {found.late_p95_s:.2f} s late (p95)"
        return f"{busy} and {late}" if found.late_p95_s > MOST_LAG_S else None
    if sessions is not None and sessions < LEAST_HELD * asked:
        return f"{busy} and held {sessions:.1f} of {asked} sessions"
    return None
