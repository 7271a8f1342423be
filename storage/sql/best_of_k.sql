-- Best of k of every cell of a sweep (its id, or its name: then the newest of that name): the
-- expected highest score of k trials of a task, averaged over tasks. One row a cell.
-- Over all subsets of k of a task's n counted trials: the sum of s_(i) C(i - 1, k - 1) / C(n, k) with
-- s_(1) <= ... <= s_(n). It is pass@k where scores are 0 and 1, and avg@n for k = 1.
-- The score is `headline_score`: right or wrong, or a degree.
-- What counts, and what is right: the view `counted`.
-- n: tasks with at least k counted trials; n_left_out: tasks with fewer, which are in no value.
create or replace macro best_of_k(sweep, k) as table
with chosen as (
    select cell_id, benchmark, model, policy, concurrency, repeat, position
    from cells
    -- The check of k stands here: among the columns, DuckDB 2 fails to plan a lateral use, and
    -- around `cells_of` it drops the check.
    where if(k < 1, error('best_of_k: k is at least 1'), true)
        and status is distinct from 'superseded' and sweep_id = coalesce(
        (select arg_max(sweep_id, created_at) from sweeps where name = sweep), sweep)
),
by_task as (
    select cell_id, count(*) as n_trials, list(headline_score order by headline_score) as ranked
    from counted where cell_id in (select cell_id from chosen) group by cell_id, task_id
),
figures as (
    -- C(i - 1, k - 1) / C(n, k) as a product of shares: no factorial grows beyond a double.
    select cell_id, n_trials >= k as is_counted,
           list_sum(list_transform(ranked, lambda s, i: s * k / n_trials * coalesce(list_product(
               list_transform(range(k - 1), lambda j: (i - 1 - j) / (n_trials - 1 - j))), 1)))
               as best
    from by_task
),
by_cell as (
    select cell_id, count(*) filter (is_counted) as n,
           count(*) filter (not is_counted) as n_left_out, avg(best) filter (is_counted) as mean
    from figures group by cell_id
)
select cell_id, benchmark, model, policy, concurrency, repeat, coalesce(n, 0) as n,
       coalesce(n_left_out, 0) as n_left_out, cast(k as bigint) as k, mean as value
from chosen left join by_cell using (cell_id)
order by position, cell_id;
