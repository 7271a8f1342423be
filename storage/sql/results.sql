-- The report's table: one row a cell, of all sweeps, without the cells that a later plan replaced
-- (status superseded).
-- is_newest: of the sweeps of this name it is the one made last.
-- n, correct, score: attempts that ended in ok, limit or model_error; one without a verdict is
-- wrong, but for a gateway's program, which is not counted until it is scored. infra_errors, scorer_errors and cancelled attempts never count. n_infra: those lost to
-- infrastructure errors.
-- score is what `measure` names. accuracy: correct / n. Its 95 % interval is Wilson's for as many
-- attempts as n are worth: n over the design effect of tasks as clusters (Kish, "Survey Sampling",
-- 1965, 8.2), since trials of one task are alike; where all answers are right, or all wrong, each
-- task counts once.
-- mean score (benchmarks whose answers can be right in part, see `headlines`): the mean over tasks
-- of a task's mean `attempts.score`. Its interval is Wilson's for the number of tasks that would
-- have the error found, less what estimating that error costs, (z / t)^2 (Korn and Graubard, 1998;
-- Dean and Pagano, 2015); mean +- t s / sqrt(tasks) for scores outside 0 to 1. None for one task.
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
task_means as (
    select a.cell_id, task_id, avg(x) as mean,
           bool_and(x in (0, 1)) as is_binary, count(*) as n
    from (select cell_id, task_id,
                 coalesce(if(isfinite(score), score, null), cast(correct as double), 0) as x
          from attempts where status in ('ok', 'limit', 'model_error')) a
         join headlines h on h.cell_id = a.cell_id and h.measure = 'mean score'
    group by a.cell_id, task_id
),
spread_of_means as (
    select cell_id, count(*)::double as tasks, avg(mean) as mean,
           -- Of equal values the deviation is 0, but its rounding is not.
           if(max(mean) - min(mean) <= 1e-12, 0, stddev_samp(mean)) / sqrt(count(*)) as se,
           min(mean) >= 0 and max(mean) <= 1 as is_share, bool_and(is_binary) as is_binary,
           1.959963984540054::double as z, count(*) - 1 as df,
           -- t(tasks - 1) at 0.975, as in `compare`.
           if(df <= 30,
              list_extract(
                  [12.7062047362, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818356,
                   2.4469118511, 2.3646242516, 2.3060041352, 2.2621571628, 2.2281388520,
                   2.2009851601, 2.1788128297, 2.1603686565, 2.1447866879, 2.1314495456,
                   2.1199052992, 2.1098155778, 2.1009220402, 2.0930240544, 2.0859634473,
                   2.0796138447, 2.0738730679, 2.0686576104, 2.0638985616, 2.0595385528,
                   2.0555294386, 2.0518305165, 2.0484071418, 2.0452296421, 2.0422724563],
                  df)::double,
              z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
              + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
              + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z)
                / (92160 * df**4)) as t
    from task_means group by cell_id
),
worths as (
    select *, (tasks - 1) * se * se / (mean * (1 - mean)) as raw_effect,
           raw_effect + if(is_binary, (1 - raw_effect) / (2 * tasks), 0) as effect,
           case when df < 1 then null when se = 0 then tasks
                when is_binary and abs(effect - 1) < 1e-9 then tasks / effect
                else tasks / effect * pow(z / t, 2) end as worth
    from spread_of_means
),
mean_scores as (
    select cell_id, mean,
           case when df < 1 then null when not is_share then mean - t * se
                when mean = 0 then 0
                else greatest(0, (mean + z * z / (2 * worth) - reach) / (1 + z * z / worth)) end
               as low,
           case when df < 1 then null when not is_share then mean + t * se
                when mean = 1 then 1
                else least(1, (mean + z * z / (2 * worth) + reach) / (1 + z * z / worth)) end
               as high
    from (select *, z * sqrt(greatest(0, mean * (1 - mean)) / worth
                             + z * z / (4 * worth * worth)) as reach from worths)
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
       coalesce(p.n_infra, 0) as n_infra, coalesce(h.measure, 'accuracy') as measure,
       if(h.measure = 'mean score', m.mean, i.score) as score,
       -- At the ends the formula is exactly 0 and 1, but its rounding is not.
       if(h.measure = 'mean score', m.low, if(i.score is null, null,
          if(i.score = 0, 0, greatest(0, (i.score + z * z / (2 * n_effective) - half) / scale))))
           as score_low,
       if(h.measure = 'mean score', m.high, if(i.score is null, null,
          if(i.score = 1, 1, least(1, (i.score + z * z / (2 * n_effective) + half) / scale))))
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
     left join headlines h on h.cell_id = s.cell_id
     left join mean_scores m on m.cell_id = s.cell_id
     left join trial_scores t on t.cell_id = s.cell_id left join paid p on p.cell_id = s.cell_id
order by s.created_at, s.position, s.cell_id;
