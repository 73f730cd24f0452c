-- How far a group of jobs is: its jobs by state.

-- name: job_progress
-- The walks of job_list, as many rows as their windows reach.
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
join /* schema */river_job j on j.id = w.id
group by j.state;

-- name: job_progress_contains
-- By River's GIN indexes on args and metadata, whose bitmap finds them all at once.
select j.state::text, count(*), false
from /* schema */river_job j
where true /* terms */
group by j.state;
