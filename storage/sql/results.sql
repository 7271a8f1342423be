-- The report's table: one row a cell, of all sweeps, without the cells that a later plan replaced
-- (status superseded).
-- is_newest: of the sweeps of this name it is the one made last.
-- n, correct, score: attempts that ended in ok, limit or model_error; one without a verdict is
-- wrong, but for a gateway's program, which is not counted until it is scored. infra_errors, scorer_errors and cancelled attempts never count. n_infra: those lost to
-- infrastructure errors.
-- score is what `measure` names (accuracy: correct / n). Its 95 % interval is Wilson's for as many
-- attempts as n are worth: n over the design effect of tasks as clusters (Kish, "Survey Sampling",
-- 1965, 8.2), since trials of one task are alike; where all answers are right, or all wrong, each
-- task counts once.
-- trials: the most counted trials of a task, where there are several; pass_at_k and pass_hat_k are
-- those of k = trials, over the tasks that have so many.
-- steps_per_min, the latencies of a step, held_p95_s and server_hit_ratio are those of the steady
-- window, or of the whole cell where it has none: is_steady.
-- policy, concurrency: null where an imported log does not say; such a cell has no steps_per_min.
-- cost_usd: of all attempts; cost_mean_usd: of one that counts. Null where the cost of one that counts is unknown.
create or replace view results as
with newest as (
    select arg_max(sweep_id, (coalesce(created_at, 'epoch'), sweep_id)) as sweep_id
    from sweeps group by name
),
by_task as (
    select cell_id, task_id, count(*) as n,
           count(*) filter (coalesce(correct, false)) as correct
    from attempts where status in ('ok', 'limit', 'model_error')
        and (correct is not null or source is distinct from 'gateway')
    group by cell_id, task_id
),
scored as (
    select cell_id, sum(n)::bigint as n, sum(correct)::bigint as correct, count(*) as tasks
    from by_task group by cell_id
),
spreads as (
    -- The variance of the score between tasks, as of tasks drawn whole.
    select b.cell_id, sum(power(b.correct - s.correct / s.n * b.n, 2)) / any_value(s.n)**2
               * any_value(s.tasks) / nullif(any_value(s.tasks) - 1, 0) as clustered
    from by_task b join scored s using (cell_id) group by b.cell_id
),
effective as (
    select cell_id, n, tasks, correct, correct / n as score,
           if(tasks < 2 or correct in (0, n), tasks::double,
              n / greatest(1, clustered / (correct / n * (1 - correct / n) / (n - 1)))) as n_effective
    from scored join spreads using (cell_id)
),
intervals as (
    -- Wilson (1927): the shares whose normal test does not reject what was seen.
    select *, 1.959963984540054::double as z,
           z * sqrt(score * (1 - score) / n_effective + z * z / (4 * n_effective * n_effective))
               as half,
           1 + z * z / n_effective as scale
    from effective
),
last_of_samples as (
    select cell_id, task_id,
           arg_max(coalesce(correct, false),
                   (coalesce(attempt, 0), coalesce(epoch_us(ended_at), 0),
                    coalesce(attempt_id, ''))) as is_right
    from attempts where status in ('ok', 'limit', 'model_error')
        and (correct is not null or source is distinct from 'gateway')
    group by cell_id, task_id, coalesce(sample_id, attempt_id)
),
trials_of_tasks as (
    select cell_id, count(*) as trials, count(*) filter (is_right) as n_right
    from last_of_samples group by cell_id, task_id
),
most_trials as (
    select cell_id, max(trials) as most from trials_of_tasks group by cell_id
),
trial_scores as (
    select cell_id, any_value(most) as trials,
           avg((n_right > 0)::int) filter (trials = most) as pass_at_k,
           avg((n_right = most)::int) filter (trials = most) as pass_hat_k
    from trials_of_tasks join most_trials using (cell_id) where most > 1 group by cell_id
),
paid as (
    select cell_id, count(*) filter (status = 'infra_error') as n_infra,
           if(bool_or(cost_usd is null and status in ('ok', 'limit', 'model_error')), null,
              sum(cost_usd)) as cost_usd,
           avg(cost_usd) filter (status in ('ok', 'limit', 'model_error')) as cost_mean_usd
    from attempts group by cell_id
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
select s.sweep, s.sweep_id, s.sweep_id in (from newest) as is_newest, s.position, s.cell_id,
       s.benchmark, s.model, s.policy, s.concurrency, s.repeat, s.status,
       coalesce(i.n, 0) as n, coalesce(i.tasks, 0) as tasks, coalesce(i.correct, 0) as correct,
       coalesce(p.n_infra, 0) as n_infra, 'accuracy' as measure, i.score,
       -- At the ends the formula is exactly 0 and 1, but its rounding is not.
       if(score is null, null,
          if(score = 0, 0, greatest(0, (score + z * z / (2 * n_effective) - half) / scale)))
           as score_low,
       if(score is null, null,
          if(score = 1, 1, least(1, (score + z * z / (2 * n_effective) + half) / scale)))
           as score_high,
       t.trials, t.pass_at_k, t.pass_hat_k,
       coalesce(f.steps, 0) as steps,
       if(s.concurrency is null, null, f.steps_per_min) as steps_per_min, f.step_latency_p50 as p50_s,
       f.step_latency_p95 as p95_s, f.held_p95 as held_p95_s, f.server_hit_ratio,
       p.cost_usd, p.cost_mean_usd, s.is_steady, s.start_s as window_start_s,
       s.end_s as window_end_s
from (
    -- Lateral, so that a condition on a sweep or a cell is one on what the macros read.
    select c.*, coalesce(w.start_s < w.end_s, false) as is_steady,
           if(is_steady, w.start_s, if(last_s > 0, 0, null)) as start_s,
           -- Windows are half open; one microsecond more takes in what ends last.
           if(is_steady, w.end_s, if(last_s > 0, last_s + 1e-6, null)) as end_s
    from (
        select sweeps.name as sweep, sweeps.created_at, cells.*, last_s
        from sweeps join cells using (sweep_id) left join spans using (cell_id)
        where cells.status is distinct from 'superseded'
    ) c, steady_window(c.cell_id) w
) s, window_summary(s.cell_id, s.start_s, s.end_s) f
     left join intervals i on i.cell_id = s.cell_id
     left join trial_scores t on t.cell_id = s.cell_id left join paid p on p.cell_id = s.cell_id
order by s.created_at, s.position, s.cell_id;
