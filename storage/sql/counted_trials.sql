-- One row a trial that counts, of the cells of a sweep (its id, or its name: then the newest).
-- What counts: attempts that ended in ok, limit or model_error, of each sample the last one.
-- infra_errors, scorer_errors and cancelled attempts never count.
-- is_right is `correct`, and null is wrong. score is the headline score of the cell's benchmark
-- (`headlines`): right or wrong (0 or 1), or a degree; 0 without one.
create or replace macro counted_trials(sweep) as table
with last as (
    select a.cell_id, task_id,
           arg_max({'is_right': coalesce(correct, false),
                    'score': if(measure = 'mean score',
                                coalesce(if(isfinite(score), score, null), cast(correct as double), 0),
                                cast(coalesce(correct, false) as double))},
                   (coalesce(attempt, 0), coalesce(epoch_us(ended_at), 0),
                    coalesce(attempt_id, ''))) as one
    from attempts a left join headlines h on h.cell_id = a.cell_id
    where status in ('ok', 'limit', 'model_error')
        and a.cell_id in (select cell_id from cells_of(sweep))
    group by a.cell_id, task_id, coalesce(sample_id, attempt_id)
)
select cell_id, task_id, one.is_right as is_right, one.score as score from last;
