-- The cells of a sweep (its id, or its name: then the newest of that name) that no later ones replace.
create or replace macro cells_of(sweep) as table
select cell_id, benchmark, model, policy, concurrency, repeat, position
from cells
where status is distinct from 'superseded' and sweep_id = coalesce(
    (select arg_max(sweep_id, created_at) from sweeps where name = sweep), sweep);
