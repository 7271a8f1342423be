-- One row about a cell with the figures of ThunderAgent's HLE example (window_summary.json and
-- steps_summary.json, whose field names these are), by its definitions and not by ours:
-- * t0 is the time of the first RESPONSE: the smallest of those with prompt_tokens > 0 and
--   cached_tokens >= 0 (t0_rule 'first_response'). For steps it is the first line of the usage log,
--   whatever it holds. t0_rule 'first_request' takes the first request sent, for both.
-- * Both ends of the window belong to it. Rates divide by its nominal length, even where the run
--   ended early.
-- * Counters: sums over samples of what the sampler noted as the change since the sample before,
--   clamped at 0 (`<name>:delta`, null for none); for a series without such notes the change is
--   computed so.
--   Hits count only with queries > 0 in the same sample, a histogram's sum only with a count > 0.
-- * Gauges: means over samples. (Their sampler reads one engine; with several each is a sample.)
-- * Steps and trials: their log's lines, kept as gateway_events (`step_complete`,
--   `trial_complete`). A cell without such lines has its tool-running steps and its attempts.
-- Samples are compared at a millisecond, which is what the samplers resolve: the importer tells
-- samples of one stamp apart by the microseconds.
create or replace macro reference_window(cell, start_s, end_s, t0_rule := 'first_response') as table
with usage as (
    select sent_at, ended_at, prompt_tokens, cached_tokens,
           prompt_tokens > 0 and cached_tokens >= 0 as usable,
           -- Lines of a usage log belong to no attempt and have their place in `step`.
           if(attempt_id is null and step is not null, step, epoch_us(ended_at)) as place
    from calls
    where cell_id = cell and role = 'orchestrator' and coalesce(status, 'ok') = 'ok'
),
starts as (
    select min(ended_at) filter (usable) as first_usable, arg_min(ended_at, place) as first_line,
           min(sent_at) as first_sent
    from usage
),
origin as (
    select case t0_rule when 'first_response' then first_usable when 'first_request' then first_sent
           else error('reference_window: t0_rule is first_response or first_request') end as t0,
           if(t0_rule = 'first_response', first_line, first_sent) as steps_t0
    from starts
),
bounds as (
    select t0, steps_t0, t0 + lead_in as begins, t0 + lead_out as ends,
           steps_t0 + lead_in as steps_begin, steps_t0 + lead_out as steps_end,
           greatest(0, cast(end_s as double) - start_s) as seconds
    from origin, (select to_microseconds(cast(round(start_s * 1e6) as bigint)) as lead_in,
                         to_microseconds(cast(round(end_s * 1e6) as bigint)) as lead_out)
),
samples as (
    select engine_id, "at", name, value from server_metrics
    where cell_id = cell and starts_with(name, 'vllm:')
),
noted as (
    select engine_id, "at", left(name, -6) as name, value from samples where name like '%:delta'
),
changes as (
    select * from noted
    union all
    select engine_id, "at", name, if(change < 0, 0, change)
    from (select *, value - lag(value) over (partition by engine_id, name order by "at") as change
          from samples
          where name not like '%:delta' and name not in (select name from noted))
),
intervals as (
    select engine_id, "at",
           any_value(value) filter (name = 'vllm:prefix_cache_hits_total') as hits,
           any_value(value) filter (name = 'vllm:prefix_cache_queries_total') as queries,
           any_value(value) filter (name = 'vllm:num_preemptions_total') as preemptions
    from changes, bounds
    where date_trunc('millisecond', "at") between begins and ends
    group by engine_id, "at"
),
interval_figures as (
    select count(*) filter (queries > 0 and hits >= 0) as samples_hit,
           coalesce(sum(hits) filter (queries > 0 and hits >= 0), 0) as sum_hits_tokens,
           coalesce(sum(queries) filter (queries > 0 and hits >= 0), 0) as sum_queries_tokens,
           count(preemptions) as preemption_samples, sum(preemptions) as sum_preemptions
    from intervals
),
gauge_figures as (
    select avg(value) filter (name = 'vllm:kv_cache_usage_perc') as kv_cache_usage_mean_perc,
           avg(value) filter (name = 'vllm:num_requests_running') as num_requests_running_mean,
           avg(value) filter (name = 'vllm:num_requests_waiting') as num_requests_waiting_mean
    from samples, bounds where date_trunc('millisecond', "at") between begins and ends
),
histograms as (
    select s.base, sum(s.value) / sum(c.value) as mean_s
    from (select *, left(name, -4) as base from changes where name like '%\_sum' escape '\') s
    join (select *, left(name, -6) as base from changes where name like '%\_count' escape '\') c
        on s.base = c.base and s."at" = c."at" and s.engine_id is not distinct from c.engine_id
    cross join bounds
    where date_trunc('millisecond', s."at") between begins and ends
        and c.value > 0 and s.value >= 0
    group by s.base
),
latency_figures as (
    select max(mean_s) filter (base = 'vllm:time_to_first_token_seconds')
               as time_to_first_token_seconds,
           max(mean_s) filter (base = 'vllm:inter_token_latency_seconds')
               as inter_token_latency_seconds,
           max(mean_s) filter (base = 'vllm:e2e_request_latency_seconds')
               as e2e_request_latency_seconds,
           max(mean_s) filter (base = 'vllm:request_prefill_time_seconds')
               as request_prefill_time_seconds,
           max(mean_s) filter (base = 'vllm:request_decode_time_seconds')
               as request_decode_time_seconds
    from histograms
),
usage_figures as (
    select count(*) as responses,
           coalesce(cast(sum(cached_tokens) as double), 0) as sum_cached_tokens,
           coalesce(cast(sum(prompt_tokens) as double), 0) as sum_prompt_tokens,
           avg(cached_tokens / prompt_tokens) as cached_tokens_ratio_request_avg
    from usage, bounds where usable and ended_at between begins and ends
),
trial_marks as (
    select "at" from gateway_events where cell_id = cell and coalesce(reason_code, reason) = 'trial_complete'
    union all
    select ended_at from attempts
    where cell_id = cell and ended_at is not null and status != 'cancelled' and not exists
        (from gateway_events where cell_id = cell and coalesce(reason_code, reason) = 'trial_complete')
),
trial_figures as (
    select count(*) as marker_lines_parsed,
           count(*) filter ("at" between begins and ends) as trials_completed_in_window,
           min("at") filter ("at" between begins and ends) as first_marker,
           max("at") filter ("at" between begins and ends) as last_marker
    from trial_marks, bounds
),
step_marks as (
    select "at" from gateway_events where cell_id = cell and coalesce(reason_code, reason) = 'step_complete'
    union all
    select max(ended_at) from tool_runs
    where cell_id = cell and ended_at is not null and not exists
        (from gateway_events where cell_id = cell and coalesce(reason_code, reason) = 'step_complete')
    group by attempt_id, step
),
step_figures as (
    select count(*) as step_complete_lines_parsed,
           count(*) filter ("at" between steps_begin and steps_end) as step_complete_in_window
    from step_marks, bounds
)
select epoch_us(t0) / 1e6 as t0_first_request_unix, epoch_us(begins) / 1e6 as window_start_unix,
       epoch_us(ends) / 1e6 as window_end_unix,
       exists (from samples) as metrics_available, samples_hit, sum_hits_tokens,
       sum_queries_tokens, sum_hits_tokens / nullif(sum_queries_tokens, 0) as hit_ratio,
       kv_cache_usage_mean_perc, num_requests_running_mean, num_requests_waiting_mean,
       time_to_first_token_seconds, inter_token_latency_seconds, e2e_request_latency_seconds,
       request_prefill_time_seconds, request_decode_time_seconds,
       if(e2e_request_latency_seconds > 0,
          request_decode_time_seconds / e2e_request_latency_seconds, null)
           as decode_over_e2e_ratio,
       preemption_samples, if(seconds > 0, sum_preemptions, null) as sum_delta_preemptions,
       if(seconds > 0, sum_preemptions / nullif(preemption_samples, 0), null)
           as delta_preemptions_mean_per_interval,
       sum_preemptions / nullif(seconds, 0) as preemptions_per_sec,
       responses, sum_cached_tokens, sum_prompt_tokens,
       sum_cached_tokens / nullif(sum_prompt_tokens, 0) as cached_tokens_ratio_token_weighted,
       cached_tokens_ratio_request_avg,
       marker_lines_parsed, trials_completed_in_window, seconds as window_duration_sec,
       trials_completed_in_window / nullif(seconds, 0) as trials_per_sec,
       epoch_us(first_marker) / 1e6 as first_marker_unix,
       epoch_us(last_marker) / 1e6 as last_marker_unix,
       epoch_us(steps_t0) / 1e6 as t0_unix, epoch_us(steps_begin) / 1e6 as t_start_unix,
       epoch_us(steps_end) / 1e6 as t_end_unix, step_complete_lines_parsed,
       step_complete_in_window, step_complete_in_window / nullif(seconds, 0) as steps_per_sec
from bounds, interval_figures, gauge_figures, latency_figures, usage_figures, trial_figures,
     step_figures;
