-- The window of a cell in which every session slot was busy: from the moment the last slot was
-- first filled to the moment the last sample started (after that the cell drains). No window, and
-- the reason, where the cell has too few samples to fill its slots twice. Attempts void by an
-- infra_error are no samples.
create or replace macro steady_window(cell) as table
with began as (
    select started_at, concurrency, row_number() over (order by started_at, attempt_id) as nth,
           count(*) over () as n
    from attempts where cell_id = cell and status != 'infra_error'
),
edges as (
    select any_value(n) as n, any_value(concurrency) as slots,
           min(started_at) filter (nth = concurrency) as filled, max(started_at) as last_start,
           (select min(sent_at) from calls where cell_id = cell) as t0
    from began
),
judged as (
    select *, case when n is null then 'no attempts'
                   when t0 is null then 'no calls'
                   when n < 2 * slots then 'fewer than two samples for each session slot'
                   when last_start <= filled then 'slots were never all busy'
                   else 'all session slots busy' end as reason
    from edges
)
select if(reason = 'all session slots busy', greatest(0, epoch_us(filled) - epoch_us(t0)) / 1e6, null)
           as start_s,
       if(reason = 'all session slots busy', (epoch_us(last_start) - epoch_us(t0)) / 1e6, null)
           as end_s,
       reason
from judged;
