-- avg@n of every cell of a sweep (its id, or its name: then the newest of that name): the mean over
-- tasks of the mean headline score of their counted trials (view `counted`). One row a cell.
-- n: tasks with a counted trial; trials: the most counted trials of one.
create or replace macro avg_at_n(sweep) as table
with by_task as (
    select cell_id, count(*) as n_trials, avg(headline_score) as mean
    from counted where cell_id in (select cell_id from cells_of(sweep)) group by cell_id, task_id
),
by_cell as (
    select cell_id, count(*) as n, max(n_trials) as trials, avg(mean) as mean
    from by_task group by cell_id
)
select cell_id, benchmark, model, policy, concurrency, repeat, coalesce(n, 0) as n,
       coalesce(trials, 0) as trials, mean as value
from cells_of(sweep) left join by_cell using (cell_id)
order by position, cell_id;
