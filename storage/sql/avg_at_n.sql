-- avg@n of every cell of a sweep (its id, or its name: then the newest of that name): the mean over
-- tasks of the mean score of their counted trials. One row a cell.
-- The score is the headline score of the cell's benchmark (`headlines`): right or wrong, or a degree.
-- What counts: attempts that ended in ok, limit or model_error, of each sample the last one; without
-- a score 0. infra_errors, scorer_errors and cancelled attempts never count.
-- n: tasks with a counted trial; trials: the most counted trials of one.
create or replace macro avg_at_n(sweep) as table
with chosen as (
    select cell_id, benchmark, model, policy, concurrency, repeat, position
    from cells
    where status is distinct from 'superseded' and sweep_id = coalesce(
        (select arg_max(sweep_id, created_at) from sweeps where name = sweep), sweep)
),
samples as (
    select a.cell_id, task_id,
           arg_max(if(measure = 'mean score',
                      coalesce(if(isfinite(score), score, null), cast(correct as double), 0),
                      cast(coalesce(correct, false) as double)),
                   (coalesce(attempt, 0), coalesce(epoch_us(ended_at), 0),
                    coalesce(attempt_id, ''))) as score
    from attempts a left join headlines h on h.cell_id = a.cell_id
    where status in ('ok', 'limit', 'model_error')
        and a.cell_id in (select cell_id from chosen)
    group by a.cell_id, task_id, coalesce(sample_id, attempt_id)
),
by_task as (
    select cell_id, count(*) as n_trials, avg(score) as mean from samples group by cell_id, task_id
),
by_cell as (
    select cell_id, count(*) as n, max(n_trials) as trials, avg(mean) as mean
    from by_task group by cell_id
)
select cell_id, benchmark, model, policy, concurrency, repeat, coalesce(n, 0) as n,
       coalesce(trials, 0) as trials, mean as value
from chosen left join by_cell using (cell_id)
order by position, cell_id;
