-- majority@k of every cell of a sweep (its id, or its name: then the newest of that name): the
-- expected score of the answer that most of k trials of a task give, averaged over tasks. One row a
-- cell. The expectation is over all subsets of k of a task's n counted trials (Wang et al.,
-- "Self-consistency", 2022; subsets as in Chen et al., 2021).
-- Votes: an attempt's answer is `counted.answer`. Equal texts are one answer; its score is the share of its trials that are right.
-- A tie gives the mean score of the tied answers. A null answer is no vote and never wins; k
-- trials without an answer give 0.
-- What counts, and what is right: the view `counted`.
-- n: tasks with at least k counted trials; n_left_out: tasks with fewer, which are in no value.
-- Tasks whose answers have the same sizes and scores have the same value: each such profile is
-- counted once, by a walk over its answers for every size `most` that the largest vote can have.
-- `ways` is the number of subsets in a state, `total` the sum over them of the tied answers' scores.
create or replace macro majority_at_k(sweep, k) as table
with recursive chosen as (
    select cell_id, benchmark, model, policy, concurrency, repeat, position
    from cells
    -- The check of k stands here: among the columns, DuckDB 2 fails to plan a lateral use.
    where if(k < 1, error('majority_at_k: k is at least 1'), true)
        and status is distinct from 'superseded' and sweep_id = coalesce(
        (select arg_max(sweep_id, created_at) from sweeps where name = sweep), sweep)
),
votes as (
    select cell_id, task_id, answer, count(*) as size, avg(is_right::int::double) as score
    from counted where cell_id in (select cell_id from chosen)
    group by cell_id, task_id, answer
),
by_task as (
    select cell_id, cast(sum(size) as bigint) as n_trials,
           cast(coalesce(sum(size) filter (answer is null), 0) as bigint) as n_silent,
           coalesce(list({'size': size, 'score': score} order by size, score)
                    filter (answer is not null), []) as answers
    from votes group by cell_id, task_id
),
profiles as (
    select row_number() over () as profile, n_trials, n_silent, answers
    from (select distinct n_trials, n_silent, answers from by_task where n_trials >= k)
),
walk as (
    select profile, n_silent, answers, most, 0 as place, picked, 0 as tied, 0.0::double as total,
           coalesce(list_product(list_transform(
               range(picked), lambda i: (n_silent - i) / (i + 1))), 1)::double as ways
    from (select *, unnest(range(1, k + 1)) as most from profiles) starts,
         unnest(range(0, least(k, n_silent) + 1)) as picks(picked)
    union all
    select profile, any_value(n_silent), any_value(answers), most, place + 1, picked + more,
           tied + (more = most)::int,
           sum(subsets * (total + if(more = most, ways * score, 0))), sum(subsets * ways)
    from (select *, coalesce(list_product(list_transform(
                     range(more), lambda i: (size - i) / (i + 1))), 1)::double as subsets
          from (select *, unnest(range(0, least(size, most, k - picked) + 1)) as more
                from (select *, answers[place + 1].size as size, answers[place + 1].score as score
                      from walk where place < len(answers)) at_answer) with_votes) with_ways
    group by profile, most, place, picked + more, tied + (more = most)::int
),
won as (
    select profile, sum(total / tied) as score_sum
    from walk where place = len(answers) and picked = k and tied > 0
    group by profile
),
by_profile as (
    select n_trials, n_silent, answers,
           coalesce(score_sum, 0) / list_product(list_transform(
               range(k), lambda i: (n_trials - i) / (i + 1))) as expected
    from profiles left join won using (profile)
),
figures as (
    select cell_id, n_trials >= k as is_counted, expected
    from by_task left join by_profile using (n_trials, n_silent, answers)
),
by_cell as (
    select cell_id, count(*) filter (is_counted) as n,
           count(*) filter (not is_counted) as n_left_out, avg(expected) filter (is_counted) as mean
    from figures group by cell_id
)
select cell_id, benchmark, model, policy, concurrency, repeat, coalesce(n, 0) as n,
       coalesce(n_left_out, 0) as n_left_out, cast(k as bigint) as k, mean as value
from chosen left join by_cell using (cell_id)
order by position, cell_id;
