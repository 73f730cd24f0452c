-- Progress of a group of jobs: its jobs by state.

-- name: job_progress
-- The scans of job_list, up to the ends of their windows. Each row's state is read by a subquery: a join might be
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
