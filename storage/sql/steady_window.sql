-- The window of a cell in which every session slot was busy: from the moment the last slot was
-- first filled to the moment the last sample started (after that the cell drains). A cell that was
-- interrupted and resumed has its window in the run that made most of its samples, so that the gap
-- between runs is in nobody's rates. No window, and the reason, where there are too few samples to
-- fill the slots twice. Attempts void by an infra_error are no samples.
create or replace macro steady_window(cell) as table
with samples as (
    select * from attempts where cell_id = cell and status != 'infra_error'
),
runs_of_cell as (
    select run_id, count(*) as n from samples group by run_id
),
began as (
    select started_at, concurrency, row_number() over (order by started_at, attempt_id) as nth,
           count(*) over () as n
    from samples
    where run_id is not distinct from
        (select run_id from runs_of_cell order by n desc, run_id limit 1)
),
edges as (
    select any_value(n) as n, any_value(concurrency) as slots,
           min(started_at) filter (nth = concurrency) as filled, max(started_at) as last_start,
           (select min(sent_at) from calls where cell_id = cell) as t0,
           (select count(*) from runs_of_cell) as runs
    from began
),
judged as (
    select *, case when n is null then 'no attempts'
                   when t0 is null then 'no calls'
                   when n < 2 * slots then 'fewer than two samples for each session slot'
                   when last_start <= filled then 'slots were never all busy'
                   when runs > 1 then 'all session slots busy, in the longest of its runs'
                   else 'all session slots busy' end as reason
    from edges
)
select if(starts_with(reason, 'all session slots busy'),
          greatest(0, epoch_us(filled) - epoch_us(t0)) / 1e6, null) as start_s,
       if(starts_with(reason, 'all session slots busy'),
          (epoch_us(last_start) - epoch_us(t0)) / 1e6, null) as end_s,
       reason
from judged;
