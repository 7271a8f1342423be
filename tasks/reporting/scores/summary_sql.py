"""The SQL behind `summary`: a cell's row of `results`, its steps in bins, its latencies.

In: a connection of `focus`.
"""

from tutti.tasks.reporting.intervals import BINS

CELLS_SQL = """
select r.*, sandbox, reason, reason_code, reason_value, task_set_id, index_id, engine_id
from results r join cells using (cell_id)
where r.sweep_id = $sweep order by r.position, cell_id
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
