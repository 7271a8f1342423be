-- One row about a cell in [start_s, end_s) seconds since the cell's first request was sent.
-- A step is an orchestrator's call plus the tool runs that follow it; it belongs to the window in
-- which it ends, and its latency includes the time the gateway held it. A counter's increase is
-- the sum of what it rose by from sample to sample, from the last sample at or before the window's
-- start (the first within it, where there is none) to the last before its end.
-- Every join names the cell: used laterally, for many cells at once, DuckDB 2 loses the cell in a
-- join that does not, and one cell's rows would count in another's window.
create or replace macro window_summary(cell, start_s, end_s) as table
with bounds as (
    -- Null seconds where the cell has no calls, so that nothing reads as measured.
    select cell as key, t0, t0 + to_microseconds(cast(start_s * 1e6 as bigint)) as begins,
           t0 + to_microseconds(cast(end_s * 1e6 as bigint)) as ends,
           if(t0 is null, null, cast(end_s - start_s as double)) as seconds
    -- A log of another tool may not say when its calls were sent; then its first answer counts.
    from (select coalesce(min(sent_at), min(ended_at)) as t0 from calls where cell_id = cell)
),
cell_calls as (
    -- The attempts' own: who judges them or plays their user is not what is measured.
    select c.*, b.begins, b.ends from calls c join bounds b on c.cell_id = b.key
    where c.cell_id = cell and coalesce(c.role, '') not in ('judge', 'user')
),
ended_calls as (
    select * from cell_calls where ended_at >= begins and ended_at < ends and status = 'ok'
),
step_ends as (
    select c.cell_id as key, c.attempt_id, c.step, min(c.sent_at) as sent_at,
           greatest(max(c.ended_at), coalesce(max(t.ended_at), max(c.ended_at))) as ended_at
    from cell_calls c left join (from tool_runs where cell_id = cell) t using (attempt_id, step)
    where c.role = 'orchestrator' and c.status = 'ok'
    group by all
),
ended_steps as (
    select epoch_us(ended_at) / 1e6 - epoch_us(sent_at) / 1e6 as latency_s
    from step_ends join bounds using (key) where ended_at >= begins and ended_at < ends
),
step_figures as (
    select count(*) as steps, quantile_cont(latency_s, 0.5) as step_latency_p50,
           quantile_cont(latency_s, 0.95) as step_latency_p95,
           quantile_cont(latency_s, 0.99) as step_latency_p99, max(latency_s) as step_latency_max
    from ended_steps
),
ended_attempts as (
    select status, cost_usd from attempts a join bounds b on a.cell_id = b.key
    where a.cell_id = cell and a.ended_at >= b.begins and a.ended_at < b.ends
),
ended_counted as (
    select c.cell_id as key, task_id, headline_score
    from counted c join bounds b on c.cell_id = b.key
    where c.cell_id = cell and c.ended_at >= b.begins and c.ended_at < b.ends
),
attempt_figures as (
    select count(*) filter (status = 'infra_error') as n_infra,
           if(bool_or(cost_usd is null and status is distinct from 'cancelled'), null,
              sum(cost_usd)) as cost_usd
    from ended_attempts
),
task_means as (
    select key, avg(headline_score) as mean, count(*) as n from ended_counted group by key, task_id
),
score_figures as (
    -- Trials of one task are alike: the score is the mean over tasks, and so is its error.
    select coalesce(sum(n), 0)::bigint as trials, avg(mean) as accuracy,
           stddev_samp(mean) / sqrt(count(*)) as accuracy_se
    from task_means
),
call_figures as (
    select avg(cached_tokens / nullif(prompt_tokens, 0)) as request_hit_avg,
           sum(cached_tokens) / nullif(sum(prompt_tokens), 0) as request_hit_token_weighted,
           quantile_cont(ttft_s, 0.5) as ttft_p50, quantile_cont(ttft_s, 0.95) as ttft_p95,
           quantile_cont(ttft_s, 0.99) as ttft_p99,
           quantile_cont((latency_s - ttft_s) / nullif(completion_tokens - 1, 0), 0.5)
               as itl_p50,
           quantile_cont((latency_s - ttft_s) / nullif(completion_tokens - 1, 0), 0.95)
               as itl_p95,
           quantile_cont(held_s, 0.5) as held_p50, quantile_cont(held_s, 0.95) as held_p95,
           max(held_s) as held_max
    from ended_calls
),
counter_series as (
    -- Of each engine's counter the value that the window counts from, and those after it. A list for
    -- each: with a window function over all rows the whole macro takes 1.8 times as long.
    select name, any_value(seconds) as seconds,
           arg_max(value, "at") filter ("at" <= begins) as base,
           list(value order by "at") filter ("at" > begins) as later
    from server_metrics join bounds on cell_id = key
    where cell_id = cell and "at" < ends and value is not null and name in
        ('vllm:prefix_cache_hits_total', 'vllm:prefix_cache_queries_total',
         'vllm:num_preemptions_total', 'vllm:request_prefill_time_seconds_sum',
         'vllm:request_prefill_time_seconds_count', 'vllm:request_decode_time_seconds_sum',
         'vllm:request_decode_time_seconds_count', 'vllm:e2e_request_latency_seconds_sum',
         'sglang:cached_tokens_total', 'sglang:prompt_tokens_total',
         'sglang:num_retracted_requests_total')
    group by name, engine_id, begins
),
counters as (
    -- A counter that went back (the engine restarted) counts from 0, as often as it does.
    select name, any_value(seconds) as seconds,
           sum(coalesce(list_sum(list_transform(
               v[2:], lambda x, i: if(x >= v[i], x - v[i], x))), 0)) as delta
    from (select name, seconds, if(base is null, later, [base] || later) as v from counter_series)
    group by name
),
counter_figures as (
    -- SGLang looks every prompt token up in its prefix cache, and calls a preemption a retraction.
    select sum(delta) filter (name in ('vllm:prefix_cache_hits_total', 'sglang:cached_tokens_total'))
               / nullif(sum(delta) filter (name in ('vllm:prefix_cache_queries_total',
                                                    'sglang:prompt_tokens_total')), 0)
               as server_hit_ratio,
           sum(delta) filter (name in ('vllm:num_preemptions_total',
                                       'sglang:num_retracted_requests_total'))
               / nullif(any_value(seconds), 0) as preemptions_per_s,
           max(delta) filter (name = 'vllm:request_prefill_time_seconds_sum')
               / nullif(max(delta) filter (name = 'vllm:request_prefill_time_seconds_count'), 0)
               as prefill_s_mean,
           max(delta) filter (name = 'vllm:request_decode_time_seconds_sum')
               / nullif(max(delta) filter (name = 'vllm:request_decode_time_seconds_count'), 0)
               as decode_s_mean,
           max(delta) filter (name = 'vllm:request_decode_time_seconds_sum')
               / nullif(max(delta) filter (name = 'vllm:e2e_request_latency_seconds_sum'), 0)
               as decode_over_e2e
    from counters
),
gauge_figures as (
    -- KV use is a share, so engines are averaged; requests of several engines add up.
    select avg(value) filter (name in ('vllm:kv_cache_usage_perc', 'sglang:token_usage'))
               as kv_usage_mean,
           sum(value) filter (name in ('vllm:num_requests_running', 'sglang:num_running_reqs'))
               as running_mean,
           sum(value) filter (name in ('vllm:num_requests_waiting', 'sglang:num_queue_reqs'))
               as waiting_mean,
           -- Ours are by NVML, a GPU each; an imported log has one series an engine.
           avg(value) filter (name = 'gpu_utilization'
                              or starts_with(name, 'nvml:gpu_utilization{')) as gpu_util_mean
    from (select name, engine_id, avg(value) as value
          from server_metrics join bounds on cell_id = key
          where cell_id = cell and "at" >= begins and "at" < ends and
              (starts_with(name, 'nvml:gpu_utilization{') or name in
               ('vllm:kv_cache_usage_perc', 'sglang:token_usage', 'vllm:num_requests_running',
                'sglang:num_running_reqs', 'vllm:num_requests_waiting', 'sglang:num_queue_reqs',
                'gpu_utilization'))
          group by name, engine_id)
),
busy_spans as (
    select cell_id as key, 'session' as kind, started_at as a, ended_at as b
    from attempts where cell_id = cell
    union all select cell_id, 'call', admitted_at, ended_at from cell_calls
    union all select cell_id, 'tool', started_at, ended_at from tool_runs where cell_id = cell
),
load_figures as (
    select sum(busy_s) filter (kind = 'session') / nullif(any_value(seconds), 0) as sessions_mean,
           sum(busy_s) filter (kind = 'call') / nullif(any_value(seconds), 0) as calls_in_flight_mean,
           sum(busy_s) filter (kind = 'tool') / nullif(any_value(seconds), 0) as tools_running_mean
    from (select kind, seconds, greatest(0, epoch_us(least(o.b, ends))
                 - epoch_us(greatest(o.a, begins))) / 1e6 as busy_s
          from busy_spans o join bounds using (key) where o.a is not null and o.b is not null)
)
select if(t0 is null, null, steps) as steps, steps * 60 / nullif(seconds, 0) as steps_per_min,
       if(t0 is null, null, trials) as trials, trials * 60 / nullif(seconds, 0) as trials_per_min, accuracy,
       accuracy_se,
       if(t0 is null, null, n_infra) as n_infra,
       server_hit_ratio, request_hit_avg, request_hit_token_weighted, kv_usage_mean, running_mean,
       waiting_mean, preemptions_per_s, ttft_p50, ttft_p95, ttft_p99, itl_p50, itl_p95,
       step_latency_p50, step_latency_p95, step_latency_p99, step_latency_max,
       held_p50, held_p95, held_max, prefill_s_mean, decode_s_mean, decode_over_e2e,
       sessions_mean, calls_in_flight_mean, tools_running_mean,
       cost_usd, gpu_util_mean
from bounds, step_figures, attempt_figures, score_figures, call_figures, counter_figures, gauge_figures,
     load_figures;
