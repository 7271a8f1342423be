"""Mean seconds of a step in each cell's window, by part.

In: a connection of `focus` and its cells. Out: one `Anatomy` a cell. Parts are sums over calls and
tool runs, so work at once adds up: a step with two tools of a second has two seconds of tools.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tutti.tasks.sweeps.results import CellSummary, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

UNSPLIT = "model, not split"
PARTS = ("held", "prefill", "decode", UNSPLIT, "tool", "retrieval", "expert", "user", "judge")
"""`held` by the gateway; `prefill` until the first token, with the engine's own queue; `decode`
after it; calls of other roles than the orchestrator's under their role."""

# Retrievals and experts' calls happen within a tool run: what is left of it is the tool's own.
ANATOMY_SQL = """
with bounds as (
    select cell_id, t0 + to_microseconds(cast(start_s * 1e6 as bigint)) as begins,
           t0 + to_microseconds(cast(end_s * 1e6 as bigint)) as ends
    from cell_windows join origins using (cell_id)
),
answered as (
    select c.*, coalesce(held_s, 0) as waited_s, role = 'orchestrator' as own,
           coalesce(latency_s, (epoch_us(ended_at) - epoch_us(sent_at)) / 1e6) as took_s
    from calls c join bounds b on c.cell_id = b.cell_id and ended_at >= begins and ended_at < ends
    where status = 'ok'
),
call_sums as (
    select cell_id, sum(waited_s) filter (own) as held,
           sum(ttft_s - waited_s) filter (own) as prefill,
           sum(took_s - ttft_s) filter (own) as decode,
           sum(took_s - waited_s) filter (own and ttft_s is null) as unsplit,
           count(*) filter (own and ttft_s is null) as unsplit_calls,
           sum(took_s) filter (role = 'expert') as expert,
           sum(took_s) filter (role = 'user') as user_s,
           sum(took_s) filter (role = 'judge') as judge
    from answered group by cell_id
),
tooled as (
    select t.cell_id, attempt_id, step,
           sum(epoch_us(ended_at) - epoch_us(started_at)) / 1e6 as seconds
    from tool_runs t join bounds b
        on t.cell_id = b.cell_id and ended_at >= begins and ended_at < ends
    group by all
),
searched as (
    select cell_id, attempt_id, step, sum(latency_s) as seconds from retrievals group by all
),
asked as (
    select cell_id, attempt_id, step, sum(took_s) as seconds
    from answered where role = 'expert' group by all
),
tool_sums as (
    select cell_id, sum(least(t.seconds, coalesce(s.seconds, 0))) as retrieval,
           sum(greatest(0, t.seconds - coalesce(s.seconds, 0) - coalesce(e.seconds, 0))) as tool
    from tooled t left join searched s using (cell_id, attempt_id, step)
         left join asked e using (cell_id, attempt_id, step)
    group by cell_id
)
select * from call_sums left join tool_sums using (cell_id)
"""


@dataclass(frozen=True)
class Anatomy:
    cell: CellSummary
    seconds: Mapping[str, float]
    """Seconds a step for each of PARTS; 0 where there was none of it."""

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def anatomies(focused: "DuckDBPyConnection", cells: Sequence[CellSummary]) -> list[Anatomy]:
    """Return the anatomy of each cell with steps in its window, in the cells' order."""
    sums = {row["cell_id"]: row for row in rows(focused, ANATOMY_SQL)}
    return [
        Anatomy(cell, _a_step(cell, sums[cell.cell_id]))
        for cell in cells
        if cell.steps and cell.cell_id in sums
    ]


def _a_step(cell: CellSummary, sums: Mapping[str, Any]) -> dict[str, float]:
    found = {part: float(sums.get(part) or 0.0) for part in PARTS}
    found["user"] = float(sums["user_s"] or 0.0)
    unsplit, calls = float(sums["unsplit"] or 0.0), int(sums["unsplit_calls"])
    prefill, decode = (calls * (s or 0.0) for s in (cell.prefill_s_mean, cell.decode_s_mean))
    # The engine's means are of all its requests; they must not exceed what these calls took.
    scale = min(1.0, unsplit / (prefill + decode)) if prefill + decode else 0.0
    found["prefill"] += scale * prefill
    found["decode"] += scale * decode
    found[UNSPLIT] = max(0.0, unsplit - scale * (prefill + decode))
    return {part: max(0.0, seconds) / cell.steps for part, seconds in found.items()}
