-- pass^k of every cell of a sweep (its id, or its name: then the newest of that name): the chance
-- that all of k trials of a task are right, averaged over tasks. One row a cell.
-- Of a task with n counted trials, c of them right, it is C(c, k) / C(n, k), which is unbiased (Yao
-- et al., "tau-bench", 2024).
-- What counts, and what is right: the view `counted`.
-- n: tasks with at least k counted trials; n_left_out: tasks with fewer, which are in no value.
create or replace macro pass_hat_k(sweep, k) as table
with chosen as (
    select cell_id, benchmark, model, policy, concurrency, repeat, position
    from cells
    -- The check of k stands here: among the columns, DuckDB 2 fails to plan a lateral use, and
    -- around `cells_of` it drops the check.
    where if(k < 1, error('pass_hat_k: k is at least 1'), true)
        and status is distinct from 'superseded' and sweep_id = coalesce(
        (select arg_max(sweep_id, created_at) from sweeps where name = sweep), sweep)
),
by_task as (
    select cell_id, count(*) as n_trials, count(*) filter (is_right) as n_right
    from counted where cell_id in (select cell_id from chosen) group by cell_id, task_id
),
figures as (
    -- C(n - c, k) / C(n, k) as a product of k shares: no factorial grows beyond a double.
    select cell_id, n_trials >= k as is_counted,
           if(n_right < k, 0, list_product(list_transform(
               range(k), lambda i: (n_right - i) / (n_trials - i)))) as chance
    from by_task
),
by_cell as (
    select cell_id, count(*) filter (is_counted) as n,
           count(*) filter (not is_counted) as n_left_out, avg(chance) filter (is_counted) as mean
    from figures group by cell_id
)
select cell_id, benchmark, model, policy, concurrency, repeat, coalesce(n, 0) as n,
       coalesce(n_left_out, 0) as n_left_out, cast(k as bigint) as k, mean as value
from chosen left join by_cell using (cell_id)
order by position, cell_id;
