-- The samples that no score has, for an infra_error or a scorer_error took each attempt that ended.
create or replace view lost_samples as
select distinct cell_id, coalesce(sample_id, attempt_id) as sample_id
from attempts where status in ('infra_error', 'scorer_error')
except select cell_id, sample_id from counted;
