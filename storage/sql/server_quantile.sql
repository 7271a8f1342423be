-- The q-th quantile (0 to 1) of a server's histogram, over what was observed in seconds start_s to
-- end_s since the cell's first request was sent; `metric` is the engine's name for the histogram,
-- e.g. vllm:time_to_first_token_seconds. One row. As Prometheus' histogram_quantile: the value lies
-- between `lower` and `upper`, the edges of the bucket it falls in, as if that bucket's
-- observations were spread evenly. The first bucket begins at 0. Of the last, which has no end, the
-- value is its lower edge: it is at least that. Engines of one cell are put together.
-- A sample tells of the time since the one before, so it counts where it ends: after the window's
-- start, up to its end. Windows that touch share nothing and lose nothing.
-- Every join names the cell; see window_summary.
create or replace macro server_quantile(cell, metric, q, start_s, end_s) as table
with bounds as (
    select cell as key, t0, t0 + to_microseconds(cast(start_s * 1e6 as bigint)) as begins,
           t0 + to_microseconds(cast(end_s * 1e6 as bigint)) as ends,
           cast(q as double) as wanted
    from (select coalesce(min(sent_at), min(ended_at)) as t0 from calls where cell_id = cell)
),
buckets as (
    -- Empty buckets too, known from all of the cell's samples: they bound their neighbours.
    select b.key, any_value(b.wanted) as wanted,
           cast(replace(split_part(m.name, '"', 2), '+Inf', 'inf') as double) as edge,
           coalesce(sum(m.value) filter (m."at" > b.begins and m."at" <= b.ends), 0) as observed
    from server_metrics m join bounds b on m.cell_id = b.key
    where m.cell_id = cell and starts_with(m.name, metric || '_bucket{le="')
    group by b.key, edge
),
counted as (
    select key, edge, observed, wanted,
           coalesce(lag(edge) over edges, if(edge = 'inf', null, least(edge, 0))) as below,
           sum(observed) over edges as upto,
           sum(observed) over (partition by key) as total
    from buckets
    window edges as (partition by key order by edge)
),
hits as (
    -- The first bucket that reaches the rank; the slack is for q * total not being exact.
    select key, any_value(total) as total, any_value(wanted) as wanted,
           min_by(below, edge) filter (reached) as lower, min(edge) filter (reached) as upper,
           min_by(upto - observed, edge) filter (reached) as before,
           min_by(observed, edge) filter (reached) as observed
    from (select *, observed > 0 and upto >= wanted * total * (1 - 1e-12) as reached from counted)
    group by key
)
select case when wanted < 0 or wanted > 1 then null
            when upper = 'inf' then lower
            else lower + (upper - lower) * greatest(0, wanted * total - before) / observed
       end as value,
       if(t0 is null, null, coalesce(total, 0)) as n, lower, upper
from (select b.t0, b.wanted, h.* exclude (wanted)
      from bounds b left join hits h on h.key = b.key);
