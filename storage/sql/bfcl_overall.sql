-- BFCL's overall score of a model by V4's weights, from the newest sweep of each category whose
-- sweep's name is like a pattern: bfcl_overall('bfcl-%'). One row a model and policy.
-- non_live: the mean of simple, multiple, parallel and parallel_multiple, where simple is the mean
-- of Python, Java and JavaScript; live: its four kinds weighted by their tasks; irrelevance: the
-- mean of irrelevance and live_irrelevance; multi_turn: the mean of its four kinds; agentic: the
-- mean of web search (two kinds) and memory (three). Overall: 10 % non-live, 10 % live, 10 %
-- irrelevance, 30 % multi-turn, 40 % agentic. A category that was not measured counts 0, as there:
-- `measured` lists those that were.
-- A category's accuracy: right among the attempts that count (view `counted`); of a memory,
-- whose attempts are scenarios: questions answered among those asked (`right` and `questions` of
-- the score `bfcl_memory`).
create or replace macro bfcl_overall(sweeps_like) as table
with memories as (
    select attempt_id, any_value(json_extract(detail, '$.questions')::int) as questions,
           any_value(json_extract(detail, '$.right')::int) as right_ones
    from scores where scorer = 'bfcl_memory' group by attempt_id
),
found as (
    select c.model, c.policy, s.created_at, s.sweep_id,
           coalesce(m.questions, 1) as asked,
           coalesce(m.right_ones, a.is_right::int) as right_ones,
           replace(json_extract_string(t.slots, '$.category'), 'simple_python', 'simple') as category
    from sweeps s join cells c using (sweep_id) join counted a using (cell_id)
    join tasks t on t.task_id = a.task_id and t.task_set_id = c.task_set_id
    left join memories m using (attempt_id)
    where s.name like sweeps_like and split_part(c.benchmark, '@', 1) in (
          'bfcl', 'bfcl-multi-turn', 'bfcl-code', 'bfcl-memory-kv', 'bfcl-memory-rec-sum')
      and c.status is distinct from 'superseded'
),
newest as (
    select model, policy, category, arg_max(sweep_id, created_at) as sweep_id
    from found group by all
),
categories as (
    select model, policy, category, sum(asked) as n, sum(right_ones) / sum(asked) as score
    from found semi join newest using (model, policy, category, sweep_id) group by all
),
parts as (
    select model, policy, list(category order by category) as measured, sum(n) as n,
           (coalesce(any_value(score) filter (category = 'simple'), 0)
            + coalesce(any_value(score) filter (category = 'simple_java'), 0)
            + coalesce(any_value(score) filter (category = 'simple_javascript'), 0)) / 12
           + coalesce(sum(score) filter (
               category in ('multiple', 'parallel', 'parallel_multiple')), 0) / 4 as non_live,
           coalesce(sum(score * n) filter (category in (
               'live_simple', 'live_multiple', 'live_parallel', 'live_parallel_multiple'))
               / sum(n) filter (category in (
               'live_simple', 'live_multiple', 'live_parallel', 'live_parallel_multiple')), 0)
               as live,
           coalesce(sum(score) filter (category in ('irrelevance', 'live_irrelevance')), 0) / 2
               as irrelevance,
           coalesce(sum(score) filter (category like 'multi\_turn\_%' escape '\'), 0) / 4
               as multi_turn,
           coalesce(sum(score) filter (category like 'web\_search\_%' escape '\'), 0) / 4
           + coalesce(sum(score) filter (category like 'memory\_%' escape '\'), 0) / 6 as agentic
    from categories group by all
)
select model, policy, 0.1 * non_live + 0.1 * live + 0.1 * irrelevance + 0.3 * multi_turn
       + 0.4 * agentic as overall, non_live, live, irrelevance, multi_turn, agentic, n, measured
from parts order by model, policy;
