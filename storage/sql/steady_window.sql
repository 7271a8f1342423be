-- The window of a cell in which every session slot was busy and its figures had settled.
-- Busy: from the moment as many samples had started as there are slots, and nine tenths of them ran
-- at once (a ramp starts them one by one), to the moment the last sample started (after that the cell
-- drains). In an open loop as many sessions have arrived as are asked for at once. A cell that was
-- interrupted or paused has its window in the stretch that made most of its samples, so that the gap
-- is in nobody's rates. No window, and the reason, where there are too few samples to fill the slots
-- twice, or it is not known how many slots there are. Attempts void by an infra_error are no samples, nor are those whose process ended before them.
-- Settled: the busy span in 40 batches; the start moves to where MSER is smallest in its first half,
-- of steps per batch (a step counts where its call ended) and of mean KV use, to the later of both.
-- MSER(d) = the squared deviations of the batches from d on, over the square of how many they are:
-- the error of their mean. It must be a fifth smaller than that of the whole span. Where it still falls
-- in the middle there is no steady state; then the busy span stays, and the reason says so. With fewer
-- than 200 steps (five a batch) it is not asked.
-- Source: White, "An effective truncation heuristic for bias reduction in simulation output",
-- Simulation 69 (1997) 323; the middle as in White, Cobb and Spratt, Winter Simulation Conference 2000.
create or replace macro steady_window(cell) as table
with pauses as (
    select cell_id, "at" from server_metrics where cell_id = cell and name = 'client:paused'
),
samples as (
    select a.cell_id, attempt_id, concurrency, due_at, started_at, ended_at,
           coalesce(run_id, '') || '#' || count(p."at") as stretch
    from (from attempts where cell_id = cell and status != 'infra_error'
               and stop_reason is distinct from 'worker_lost') a
         left join pauses p on a.cell_id = p.cell_id and p."at" < a.started_at
    group by a.cell_id, attempt_id, concurrency, due_at, started_at, ended_at, run_id
),
stretches as (
    select cell_id, stretch, count(*) as n from samples group by cell_id, stretch
),
longest as (
    select cell_id, arg_min(stretch, (-n, stretch)) as stretch, count(*) as runs
    from stretches group by cell_id
),
began as (
    select s.cell_id, s.started_at, s.ended_at, s.concurrency, s.due_at, runs,
           row_number() over (partition by s.cell_id order by s.started_at, s.attempt_id) as nth
    from samples s join longest l on s.cell_id = l.cell_id and s.stretch = l.stretch
),
moves as (
    select cell_id, concurrency, started_at as "at", 1 as step from began
    union all
    select cell_id, concurrency, ended_at, -1 from began
),
at_once as (
    select cell_id, concurrency, "at",
           sum(step) over (partition by cell_id order by "at", step
                           rows between unbounded preceding and current row) as running
    from moves
),
full_slots as (
    select cell_id, min("at") filter (running >= ceil(0.9 * concurrency)) as since
    from at_once group by cell_id
),
edges as (
    select b.cell_id, count(*) as n, any_value(concurrency) as slots,
           min(started_at) filter (nth = concurrency) as last_slot, max(started_at) as last_start,
           2 * count(due_at) > count(*) as is_open, any_value(runs) as runs,
           if(is_open, last_slot, greatest(last_slot, any_value(since))) as filled
    from began b join full_slots f on b.cell_id = f.cell_id group by b.cell_id
),
zero as (
    select cell as key, min(sent_at) as t0 from calls where cell_id = cell
),
judged as (
    select key, t0, e.*, case when n is null then 'no attempts'
                   when t0 is null then 'no calls'
                   when slots is null then 'it is not known how many sessions ran at once'
                   when n < 2 * slots then 'fewer than two samples for each session slot'
                   when last_start <= filled then 'slots were never all busy'
                   end as no_window,
           if(is_open, 'as many sessions arrived as asked for', 'all session slots busy')
           || if(runs > 1, ', in the longest of its stretches', '') as busy
    from zero left join edges e on e.cell_id = key
),
span as (
    select key, t0, busy, no_window,
           if(no_window is null, greatest(0, epoch_us(filled) - epoch_us(t0)) / 1e6, null)
               as start_s,
           if(no_window is null, (epoch_us(last_start) - epoch_us(t0)) / 1e6, null) as end_s
    from judged
),
seen as (
    select cell_id as key, 'steps' as figure, ended_at as "at", 1.0::double as value
    from calls where cell_id = cell and role = 'orchestrator' and status = 'ok'
    union all
    select cell_id, 'KV use', "at", value from server_metrics
    where cell_id = cell and name in ('vllm:kv_cache_usage_perc', 'sglang:token_usage')
),
placed as (
    select n.key, figure, value,
           floor(((epoch_us("at") - epoch_us(t0)) / 1e6 - start_s) / (end_s - start_s) * 40)::bigint
               as batch
    from seen n join span s on n.key = s.key where start_s is not null and end_s > start_s
),
batched as (
    select key, figure, batch, if(figure = 'steps', count(*), avg(value)) as y
    from placed where batch >= 0 and batch < 40 group by key, figure, batch
),
-- From here on lists: used laterally, for many cells at once, DuckDB 2 loses the cell in a window.
series as (
    select key, list(batch order by batch) filter (figure = 'steps') as step_at,
           list(y order by batch) filter (figure = 'steps') as step_y,
           list(batch order by batch) filter (figure = 'KV use') as kv_at,
           list(y order by batch) filter (figure = 'KV use') as kv_y
    from batched group by key
),
filled as (
    -- A batch without a step is a batch of 0; one without a sample of KV use is none.
    select s.*, if(list_sum(step_y) >= 200, range(40), null) as steps_at,
           list_transform(range(40), lambda b: coalesce(step_y[list_position(step_at, b)], 0))
               as steps_y,
           if(len(kv_at) >= 20, kv_at, null) as kv_at, kv_y
    from span s left join series f on s.key = f.key
),
errors as (
    select *, list_transform(range(21), lambda d:
                  list_var_pop(steps_y[d + 1:]) / (40 - d)) as of_steps,
           list_transform(range(len(list_filter(kv_at, lambda b: b <= 20))), lambda d:
                  list_var_pop(kv_y[d + 1:]) / (len(kv_at) - d)) as of_kv
    from filled
),
cuts as (
    -- A start that takes less than a fifth off the error of the whole span is noise, and is not
    -- worth its steps.
    select *,
           if(steps_at is null, null, if(list_min(of_steps) > 0.8 * of_steps[1], 0,
              list_position(of_steps, list_min(of_steps)) - 1)) as steps_d,
           if(steps_at is null, null, if(list_min(of_kv) > 0.8 * of_kv[1], 0,
              kv_at[list_position(of_kv, list_min(of_kv))])) as kv_d
    from errors
),
settled as (
    select *, (end_s - start_s) * greatest(steps_d, coalesce(kv_d, 0)) / 40 as cut_s,
           'steps' || if(kv_d is null, '', ' and KV use') as figures,
           concat_ws(' and ', if(steps_d = 20, 'steps', null), if(kv_d = 20, 'KV use', null))
               as unsettled
    from cuts
)
select if(unsettled = '', start_s + coalesce(cut_s, 0), start_s) as start_s, end_s,
       coalesce(no_window, busy || case when steps_d is null then ''
           when unsettled != '' then '; no steady state by MSER on ' || unsettled
           when cut_s > 0 then '; its first ' || round(cut_s, 1) || ' s cut by MSER on ' || figures
           else '; nothing cut by MSER on ' || figures end) as reason
from settled;
