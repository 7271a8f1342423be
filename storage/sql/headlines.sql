-- What the headline score of a cell is, by its benchmark's declaration. One row a cell.
-- measure: accuracy (the share of right attempts), or mean score (the mean of `attempts.score`, for
-- benchmarks whose answers can be right in part). Null: not declared; then a cell's score is its
-- accuracy, and comparisons take `attempts.score` where there is one.
-- Task sets of before declarations were recorded have the name of their scorer; those here give a
-- degree of 0 to 1.
create or replace view headlines as
select cell_id, coalesce(detail ->> '$.headline.measure',
                         if((detail ->> '$.scorer') in ('rubric', 'reward', 'pairwise'),
                            'mean score', null)) as measure
from cells left join artifacts on artifact_id = task_set_id;
