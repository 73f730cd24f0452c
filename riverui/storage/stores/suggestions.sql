-- Suggestions for searches, from the newest jobs only.

-- name: job_tag_list
select distinct t.tag
from (select j.tags from /* schema */river_job j order by j.id desc limit 10000) newest
-- Jobs with thousands of tags are skipped: people do not search for these.
cross join lateral unnest(case when pg_column_size(newest.tags) <= 8192 then newest.tags::text[] end) as t (tag)
where t.tag ilike :pattern::text
order by t.tag
limit :limit::bigint;

-- name: job_worker_list
-- The last entry of `attempted_by` is the client that works the job, or worked it last. River keeps a hundred; much
-- longer arrays would have to be decompressed whole.
select distinct w.name
from (
  (
    select left(j.attempted_by[array_upper(j.attempted_by, 1)], 1000) as name
    from (select j.attempted_by from /* schema */river_job j where j.state = 'running' limit 2000) j
    where pg_column_size(j.attempted_by) <= 32768
  )
  union all
  (
    select left(j.attempted_by[array_upper(j.attempted_by, 1)], 1000)
    from (
      select j.attempted_by from /* schema */river_job j
      where j.state = 'completed' and j.finalized_at is not null
      order by j.finalized_at desc limit 2000
    ) j
    where pg_column_size(j.attempted_by) <= 32768
  )
  union all
  (
    select left(j.attempted_by[array_upper(j.attempted_by, 1)], 1000)
    from (
      select j.attempted_by from /* schema */river_job j
      where j.state = 'discarded' and j.finalized_at is not null
      order by j.finalized_at desc limit 500
    ) j
    where pg_column_size(j.attempted_by) <= 32768
  )
) w
where w.name ilike :pattern::text
order by w.name
limit :limit::bigint;

-- name: job_path_list
-- Paths through objects only, as in containment by path; large and deep values are left out.
with recursive newest as (
  select j./* column: */args/* :column */ as value
  from /* schema */river_job j
  order by j.id desc
  limit 500
),
paths as (
  select f.key as path, f.value, 1 as depth
  from newest
  cross join lateral jsonb_each(
    case
      when pg_column_size(newest.value) <= 8192 and jsonb_typeof(newest.value) = 'object' then newest.value
      else '{}'
    end
  ) f
  where f.key !~ '[."\\]'
  union all
  select p.path || '.' || f.key, f.value, p.depth + 1
  from paths p
  cross join lateral jsonb_each(case jsonb_typeof(p.value) when 'object' then p.value else '{}' end) f
  where p.depth < 6 and f.key !~ '[."\\]'
)
select distinct path
from paths
where path ilike :pattern::text and path not in ('output', 'river:log', 'river_encrypt')
  and jsonb_typeof(value) <> 'object'
order by path
limit :limit::bigint;
