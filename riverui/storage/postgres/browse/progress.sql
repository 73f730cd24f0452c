-- How far a group of jobs is: its jobs by state.

-- name: job_progress
-- The scans of job_list, as many rows as their windows reach. Each row's state is looked up by itself: a join might be
-- planned as a scan of all ids.
select j.state::text as state, count(*) filter (where w.matched) as jobs, bool_or(w.ended) as ended
from (
  select w.id, w.matched, w.ended
  from (
    /* scans: */
    select j.id, true as matched, false as ended from /* schema */river_job j
    order by j.id limit :limit::bigint + 1
    /* :scans */
  ) w
  limit :limit::bigint + 1
) w
cross join lateral (select j.state from /* schema */river_job j where j.id = w.id offset 0) j
group by j.state;

-- name: job_progress_contains
-- By River's GIN indexes on args and metadata, whose bitmap finds them all at once.
select j.state::text as state, count(*) as jobs, false as ended
from /* schema */river_job j
where true /* terms */
group by j.state;
