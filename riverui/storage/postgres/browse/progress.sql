-- How far a group of jobs is: its jobs by state.

-- name: job_progress
-- The walks of job_list, as many rows as their windows reach. Each row's state is looked up by itself: a join might be
-- planned as a walk along all ids.
select j.state::text, count(*) filter (where w.matched), bool_or(w.ended)
from (
  select w.id, w.matched, w.ended
  from (
    /* walks: */
    select j.id, true as matched, false as ended from /* schema */river_job j
    order by j.id limit :limit::bigint + 1
    /* :walks */
  ) w
  limit :limit::bigint + 1
) w
cross join lateral (select j.state from /* schema */river_job j where j.id = w.id offset 0) j
group by j.state;

-- name: job_progress_contains
-- By River's GIN indexes on args and metadata, whose bitmap finds them all at once.
select j.state::text, count(*), false
from /* schema */river_job j
where true /* terms */
group by j.state;
