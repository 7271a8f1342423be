-- What a cell's calls cost, by the role they were made in and the model that answered; every call
-- counts, also those of attempts that were void, for they were paid for too.
create or replace macro cost_by_role(cell) as table
select role, model, count(*) as calls, count(*) filter (status is distinct from 'ok') as failed,
       sum(prompt_tokens) as prompt_tokens, sum(cached_tokens) as cached_tokens,
       sum(completion_tokens) as completion_tokens, sum(cost_usd) as cost_usd
from calls where cell_id = cell group by role, model
order by cost_usd desc nulls last, role, model;
