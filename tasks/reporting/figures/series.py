"""A cell over time, ready to draw: steps per minute, and the server's metrics.

In: a connection of `focus` and a cell id. Out: one `Series` an engine, thinned to a few hundred
points, and the steps' rate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti.tasks.reporting.focus import rows, rows_by

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KV_USE, RUNNING, WAITING, HIT_RATIO = "kv_use", "running", "waiting", "hit_ratio"
POINTS = 160  # about one for two pixels of a panel
RATE_BINS = 32  # of a cell's time, at most; fewer where a bin would hold less than five steps
FEWEST_BINS = 4

# vLLM's name or SGLang's. Counters are differences between neighbouring samples; one that is lower
# than the sample before (a restarted engine) counts from 0, as in window_summary.
SERIES_SQL = f"""
with samples as (
    select engine_id, name, value, (epoch_us("at") - epoch_us(t0)) / 1e6 as second,
           lag(value) over (partition by engine_id, name order by "at") as before,
           if(value >= before, value - before, if(before is null, null, value)) as delta
    from server_metrics join origins using (cell_id)
    where cell_id = $cell and t0 is not null and engine_id is distinct from 'client'
),
width as (select greatest((max(second) - min(second)) / {POINTS}, 0.001) as s from samples)
select engine_id, avg(second) as second, count(distinct second) as samples,
       avg(value) filter (name in ('vllm:kv_cache_usage_perc', 'sglang:token_usage')) as {KV_USE},
       avg(value) filter (name in ('vllm:num_requests_running', 'sglang:num_running_reqs'))
           as {RUNNING},
       avg(value) filter (name in ('vllm:num_requests_waiting', 'sglang:num_queue_reqs'))
           as {WAITING},
       sum(delta) filter (name in ('vllm:prefix_cache_hits_total', 'sglang:cached_tokens_total'))
       / nullif(sum(delta) filter (name in ('vllm:prefix_cache_queries_total',
                                            'sglang:prompt_tokens_total')), 0)
           as {HIT_RATIO}
from samples, width
group by engine_id, floor(second / width.s) order by engine_id, second
"""
RATE_SQL = f"""
with mine as (
    select end_s from steps where cell_id = $cell
),
parts as (
    select any_value(last_s) as last_s,
           greatest({FEWEST_BINS}, least({RATE_BINS}, (select count(*) // 5 from mine))) as n
    from cell_windows where cell_id = $cell and last_s > 0
),
bins as (
    select last_s / n as width, unnest(range(n)) as bin from parts where last_s is not null
),
counts as (
    select least(parts.n - 1, floor(end_s / last_s * parts.n)::bigint) as bin, count(*) as n
    from mine, parts where last_s is not null group by all
)
select (bin + 0.5) * width as second, coalesce(n, 0) * 60 / width as per_min
from bins left join counts using (bin) order by bin
"""


@dataclass(frozen=True)
class Series:
    """One engine's metrics; every list is as long as `seconds`."""

    seconds: Sequence[float]
    """Since the cell's first request."""
    values: Mapping[str, Sequence[float | None]]
    samples: int
    """Times at which the server was asked."""


def server_series(focused: "DuckDBPyConnection", cell_id: str) -> list[Series]:
    """One series an engine; empty when the cell has no calls (no time zero) or no samples."""
    return [
        Series(
            [row["second"] for row in found],
            {key: [row[key] for row in found] for key in (KV_USE, RUNNING, WAITING, HIT_RATIO)},
            sum(int(row["samples"]) for row in found),
        )
        for found in rows_by(focused, "engine_id", SERIES_SQL, cell=cell_id).values()
    ]


def rate_series(focused: "DuckDBPyConnection", cell_id: str) -> tuple[list[float], list[float]]:
    """Middles of at most RATE_BINS equal bins of the cell's time, and steps per minute in each."""
    found = rows(focused, RATE_SQL, cell=cell_id)
    return [row["second"] for row in found], [row["per_min"] for row in found]
