-- The report's table: one row a cell, of all sweeps, without the cells that a later plan replaced
-- (status superseded).
-- is_newest: of the sweeps of this name it is the one made last.
-- n, correct, score: of the view `counted`. n_infra: attempts lost to infrastructure errors.
-- score is what `measure` names: the mean over tasks of a task's mean `headline_score`. Trials of a
-- task are alike and are averaged first; they never count as tasks.
-- Its 95 % interval is Wilson's (1927) for the number of tasks that would have the error found, less
-- what estimating that error costs, (z / t)^2 (Korn and Graubard, 1998; Dean and Pagano, 2015); where
-- no two tasks differ, each counts once. Mean +- t s / sqrt(tasks) for scores outside 0 to 1, and
-- none of one task. It is `mean_interval` of tutti.tasks.scoring.statistics.
-- trials: the most counted trials of a task, where there are several; pass_at_k and pass_hat_k are
-- those of k = trials, over the tasks that have so many.
-- Figures of speed and load are those of `window_summary` over the steady window, or over the whole
-- cell where it has none: is_steady; window_reason says why. last_s: when the cell's last call, tool
-- run or attempt ended.
-- policy, concurrency: null where an imported log does not say; such a cell has no steps_per_min.
-- cost_usd: of all attempts; null where the cost of one that ended (not cancelled) is unknown.
-- cost_mean_usd: of one that counts; null where one's is unknown.
create or replace view results as
with newest as (
    select arg_max(sweep_id, (coalesce(created_at, 'epoch'), sweep_id)) as sweep_id
    from sweeps group by name
),
counts as materialized (
    -- Once: finding the last attempt and its newest verdict is most of the work.
    select cell_id, task_id, is_right, headline_score, cost_usd from counted
),
by_task as (
    select cell_id, count(*) as n, count(*) filter (is_right) as n_right,
           avg(headline_score) as mean, bool_and(headline_score in (0, 1)) as is_binary
    from counts group by cell_id, task_id
),
scored as (
    select cell_id, sum(n)::bigint as n, sum(n_right)::bigint as correct,
           count(*)::double as tasks, avg(mean) as mean,
           -- Of equal values the deviation is 0, but its rounding is not.
           if(max(mean) - min(mean) <= 1e-12, 0, stddev_samp(mean)) / sqrt(count(*)) as se,
           min(mean) >= 0 and max(mean) <= 1 as is_share, bool_and(is_binary) as is_binary,
           1.959963984540054::double as z, t_975(count(*) - 1) as t
    from by_task group by cell_id
),
worths as (
    select *, (tasks - 1) * se * se / (mean * (1 - mean)) as raw_effect,
           raw_effect + if(is_binary, (1 - raw_effect) / (2 * tasks), 0) as effect,
           case when tasks = 1 or se = 0 then tasks
                when is_binary and abs(effect - 1) < 1e-9 then tasks / effect
                else tasks / effect * pow(z / t, 2) end as n_effective
    from scored
),
intervals as (
    -- At the ends the formula is exactly 0 and 1, but its rounding is not.
    select *,
           case when not is_share then mean - t * se when mean = 0 then 0
                else greatest(0, (mean + z * z / (2 * n_effective) - reach)
                                 / (1 + z * z / n_effective)) end as low,
           case when not is_share then mean + t * se when mean = 1 then 1
                else least(1, (mean + z * z / (2 * n_effective) + reach)
                              / (1 + z * z / n_effective)) end as high
    from (select *, z * sqrt(greatest(0, mean * (1 - mean)) / n_effective
                             + z * z / (4 * n_effective * n_effective)) as reach from worths)
),
most_trials as (
    select cell_id, max(n) as most from by_task group by cell_id
),
trial_scores as (
    select cell_id, any_value(most) as trials,
           avg((n_right > 0)::int) filter (n = most) as pass_at_k,
           avg((n_right = most)::int) filter (n = most) as pass_hat_k
    from by_task join most_trials using (cell_id) where most > 1 group by cell_id
),
costs as (
    select cell_id, bool_and(cost_usd is not null) as is_known, avg(cost_usd) as mean_usd,
           stddev_samp(cost_usd) as deviation_usd
    from counts group by cell_id
),
paid as (
    select cell_id, count(*) filter (status = 'infra_error') as n_infra,
           if(bool_or(cost_usd is null and status is distinct from 'cancelled'), null,
              sum(cost_usd)) as cost_usd,
           any_value(if(is_known, mean_usd, null)) as cost_mean_usd,
           any_value(if(is_known, deviation_usd, null)) as cost_deviation_usd
    from attempts left join costs using (cell_id) group by cell_id
),
starts as (
    select cell_id, coalesce(min(sent_at), min(ended_at)) as t0 from calls group by cell_id
),
ends as (
    select cell_id, max(ended_at) as last_at
    from (select cell_id, ended_at from calls union all select cell_id, ended_at from tool_runs
          union all select cell_id, ended_at from attempts)
    group by cell_id
),
spans as (
    select cell_id, (epoch_us(last_at) - epoch_us(t0)) / 1e6 as last_s
    from starts join ends using (cell_id)
)
select s.sweep, s.sweep_id, coalesce(s.sweep_id in (from newest), false) as is_newest, s.position, s.cell_id,
       s.benchmark, s.model, s.policy, s.concurrency, s.repeat, s.status,
       coalesce(i.n, 0) as n, coalesce(i.tasks, 0)::bigint as tasks,
       coalesce(i.correct, 0) as correct, coalesce(p.n_infra, 0) as n_infra,
       coalesce(h.measure, 'accuracy') as measure,
       i.mean as score, i.low as score_low, i.high as score_high,
       t.trials, t.pass_at_k, t.pass_hat_k,
       coalesce(f.steps, 0) as steps,
       if(s.concurrency is null, null, f.steps_per_min) as steps_per_min, f.step_latency_p50 as p50_s,
       f.step_latency_p95 as p95_s, f.step_latency_p99 as p99_s, f.held_p95 as held_p95_s,
       f.prefill_s_mean, f.decode_s_mean, f.server_hit_ratio, f.kv_usage_mean, f.running_mean,
       f.waiting_mean, f.preemptions_per_s, f.sessions_mean, f.calls_in_flight_mean,
       f.tools_running_mean, p.cost_usd, p.cost_mean_usd, p.cost_deviation_usd, s.is_steady,
       s.start_s as window_start_s, s.end_s as window_end_s,
       case when s.is_steady then s.why when s.start_s is null then 'no requests'
            when s.has_window then 'whole cell: the steady window is empty'
            else 'whole cell: ' || s.why end as window_reason,
       s.last_s
from (
    -- Lateral, so that a condition on a sweep or a cell is one on what the macros read.
    select c.*, coalesce(w.start_s < w.end_s, false) as is_steady, w.reason as why,
           w.start_s is not null as has_window,
           if(is_steady, w.start_s, if(last_s > 0, 0, null)) as start_s,
           -- Windows are half open; one microsecond more takes in what ends last.
           if(is_steady, w.end_s, if(last_s > 0, last_s + 1e-6, null)) as end_s
    from (
        select sweeps.name as sweep, sweeps.created_at, cells.*, last_s
        from cells left join sweeps using (sweep_id) left join spans using (cell_id)
        where cells.status is distinct from 'superseded'
    ) c, steady_window(c.cell_id) w
) s, window_summary(s.cell_id, s.start_s, s.end_s) f
     left join intervals i on i.cell_id = s.cell_id
     left join headlines h on h.cell_id = s.cell_id
     left join trial_scores t on t.cell_id = s.cell_id left join paid p on p.cell_id = s.cell_id
order by s.created_at, s.position, s.cell_id;
