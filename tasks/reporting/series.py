"""A server's metrics over a cell's time, ready to draw.

In: a connection and a cell id. Out: one `Series` an engine, thinned to a few hundred points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.reporting.summary import rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

KV_USE, RUNNING, WAITING, HIT_RATIO = "kv_use", "running", "waiting", "hit_ratio"
POINTS = 240  # about one a pixel and a half in a panel

# Counters are differences between neighbouring samples; a negative one is a restarted engine.
SERIES_SQL = f"""
with samples as (
    select engine_id, name, value, (epoch_us("at") - epoch_us(t0)) / 1e6 as second,
           value - lag(value) over (partition by engine_id, name order by "at") as delta
    from server_metrics, (select min(sent_at) as t0 from calls where cell_id = $cell)
    where cell_id = $cell and t0 is not null
),
width as (select greatest((max(second) - min(second)) / {POINTS}, 0.001) as s from samples)
select engine_id, avg(second) as second, count(distinct second) as samples,
       avg(value) filter (name = 'vllm:kv_cache_usage_perc') as {KV_USE},
       avg(value) filter (name = 'vllm:num_requests_running') as {RUNNING},
       avg(value) filter (name = 'vllm:num_requests_waiting') as {WAITING},
       sum(delta) filter (name = 'vllm:prefix_cache_hits_total' and delta >= 0)
       / nullif(sum(delta) filter (name = 'vllm:prefix_cache_queries_total' and delta >= 0), 0)
           as {HIT_RATIO}
from samples, width
group by engine_id, floor(second / width.s) order by engine_id, second
"""


@dataclass(frozen=True)
class Series:
    """One engine's metrics; every list is as long as `seconds`."""

    seconds: Sequence[float]
    """Since the cell's first request."""
    values: Mapping[str, Sequence[float | None]]
    samples: int
    """Times at which the server was asked."""


def server_series(connection: "DuckDBPyConnection", cell_id: str) -> list[Series]:
    """One series an engine; empty when the cell has no calls (no time zero) or no samples."""
    by_engine: dict[str | None, list[dict[str, float]]] = {}
    for row in rows(connection, SERIES_SQL, cell=cell_id):
        by_engine.setdefault(row["engine_id"], []).append(row)
    return [
        Series(
            [row["second"] for row in found],
            {key: [row[key] for row in found] for key in (KV_USE, RUNNING, WAITING, HIT_RATIO)},
            sum(int(row["samples"]) for row in found),
        )
        for found in by_engine.values()
    ]
