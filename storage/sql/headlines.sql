-- What the headline score of a cell is. One row a cell.
-- measure: accuracy (the share of right attempts), or mean score (the mean over tasks of
-- `counted.score`, for benchmarks whose answers can be right in part). A benchmark declares it; task
-- sets of before declarations were recorded have the name of their scorer. A cell of which nothing
-- is declared, such as one of an imported log, has mean scores if any of its scores is neither 0
-- nor 1.
create or replace view headlines as
with known as (
    select cell_id, task_set_id from cells
    union all
    select distinct cell_id, null from attempts where cell_id not in (select cell_id from cells)
),
declared as (
    select cell_id, coalesce(detail ->> '$.headline.measure',
                             if((detail ->> '$.scorer') in ('rubric', 'reward', 'pairwise'),
                                'mean score', null)) as measure
    from known left join artifacts on artifact_id = task_set_id
),
partly_right as (
    select distinct cell_id
    from (select cell_id, score from attempts
          union all select cell_id, value from scores
          where correct is not null and scored_at is not null)
    where score not in (0, 1) and isfinite(score)
        and cell_id in (select cell_id from declared where measure is null)
)
select d.cell_id,
       coalesce(measure, if(p.cell_id is null, 'accuracy', 'mean score')) as measure
from declared d left join partly_right p on p.cell_id = d.cell_id;
