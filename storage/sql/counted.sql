-- The attempts that count in a score: of each sample the last that ended in COUNTED_STATUSES,
-- with its newest verdict. The columns are those of `attempts`, and measure, is_right and
-- headline_score.
-- infra_errors and cancelled attempts never count. A scorer_error counts once it has a score, and so
-- does a gateway's program, which nothing scores while it runs.
-- score, correct and answer: those of the newest dated row of `scores` that says whether the attempt
-- is right; the attempt's own if there is none, or if several have the same time.
-- answer is what a scorer read; null: it read none. Rows of `scores` without `correct` are no
-- verdicts (a judge's picks of turns).
-- is_right: `correct`, else whether the score is 1; an attempt without a verdict is wrong.
-- headline_score: what the cell's score is the mean of, by its measure (`headlines`): 1 or 0, or
-- the score, of which one without is right or wrong.
-- A row without a task or sample is a task or sample of its own.
create or replace view counted as
with verdicts as (
    -- One aggregate a column, so that a query that needs no answers reads none; structs, since
    -- arg_max alone passes over nulls.
    select cell_id, attempt_id, count(*) = 1 or max(scored_at) > min(scored_at) as is_later,
           arg_max({'v': value}, (scored_at, scorer)).v as new_score,
           arg_max(correct, (scored_at, scorer)) as new_correct,
           arg_max({'v': answer}, (scored_at, scorer)).v as new_answer
    from scores where correct is not null and scored_at is not null group by cell_id, attempt_id
),
joined as (
    select a.*, new_score, new_correct, new_answer, v.attempt_id is not null as is_judged,
           is_judged and (is_later or (a.correct is null and a.score is null)) as replaces
    from attempts a left join verdicts v on v.cell_id = a.cell_id and v.attempt_id = a.attempt_id
),
judged as (
    select * exclude (new_score, new_correct, new_answer, is_judged) replace (
               coalesce(sample_id, attempt_id) as sample_id,
               coalesce(task_id, attempt_id) as task_id,
               if(replaces or is_judged and new_correct is not distinct from correct,
                  new_answer, answer) as answer,
               if(replaces, new_score, score) as score,
               if(replaces, new_correct, correct) as correct)
    from joined
),
last_ones as (
    from judged
    where (status in COUNTED_STATUSES or status = 'scorer_error' and replaces)
        and (source is distinct from 'gateway' or correct is not null or score is not null)
    qualify row_number() over (
        partition by cell_id, sample_id
        order by coalesce(attempt, 0) desc, epoch_us(ended_at) desc nulls last,
                 attempt_id desc nulls last) = 1
)
select l.* exclude (replaces), coalesce(measure, 'accuracy') as measure,
       coalesce(correct, score = 1, false) as is_right,
       if(measure = 'mean score',
          coalesce(if(isfinite(score), score, null), cast(correct as double), 0),
          cast(coalesce(correct, score = 1, false) as double)) as headline_score
from last_ones l left join headlines h on h.cell_id = l.cell_id;
