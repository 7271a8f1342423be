"""The SQL behind `summary`: a cell's scores and cost, its steps in bins, its latencies.

In: a connection of `focus`.
"""

from tutti.tasks.reporting.focus import CURRENT
from tutti.tasks.reporting.intervals import BINS
from tutti.tasks.reporting.scores.headline import ACCURACY, COUNTED

# Coalesce: a limit or model error without a score is a wrong answer, not an absent one.
SCORED_SQL = f"""
with by_task as (
    select cell_id, task_id, count(*) as n,
           count(*) filter (coalesce(correct, false)) as correct
    from attempts where {COUNTED} group by all
),
scored as (
    select cell_id, sum(n)::bigint as n, sum(correct)::bigint as correct, count(*) as tasks
    from by_task group by cell_id
),
spreads as (
    select cell_id, sum(power(b.correct - s.correct / s.n * b.n, 2)) as spread
    from by_task b join scored s using (cell_id) group by cell_id
),
paid as (
    select cell_id, count(*) filter (status = 'infra_error') as n_infra,
           if(bool_or(cost_usd is null and {COUNTED}), null, sum(cost_usd)) as cost_usd,
           avg(cost_usd) filter ({COUNTED}) as cost_mean,
           stddev_samp(cost_usd) filter ({COUNTED}) as cost_deviation,
           count(cost_usd) filter ({COUNTED}) as costs
    from attempts group by cell_id
)
select cells.*, w.start_s as window_start_s, w.end_s as window_end_s, w.last_s, w.steady,
       w.reason as window_reason, coalesce(n, 0) as n, coalesce(correct, 0) as correct,
       coalesce(tasks, 0) as tasks, spread, coalesce(n_infra, 0) as n_infra, cost_usd, cost_mean,
       cost_deviation, coalesce(costs, 0) as costs, coalesce(measure, '{ACCURACY}') as measure
from cells left join headlines using (cell_id) left join cell_windows w using (cell_id)
     left join paid using (cell_id)
     left join scored using (cell_id) left join spreads using (cell_id)
where sweep_id = $sweep and {CURRENT} order by position, cell_id
"""
BINS_SQL = f"""
select cell_id, floor((ended_s - start_s) / (w.end_s - start_s) * {BINS})::bigint as bin,
       count(*) as n
from (select cell_id, end_s as ended_s from steps) s join cell_windows w using (cell_id)
where ended_s >= start_s and ended_s < w.end_s group by all
"""
LATENCIES_SQL = """
select latency_s from steps s join cell_windows w using (cell_id)
where cell_id = $cell and s.end_s >= w.start_s and s.end_s < w.end_s order by s.end_s
"""
