-- Suggestions for searches, from the newest jobs only.

-- name: job_tag_list
-- Jobs with thousands of tags are skipped: people do not search for these.
select distinct t.value
from (select tags from river_job order by id desc limit 10000) j
cross join json_each(
  iif(length(j.tags) <= 8192 and json_valid(json_text(j.tags)), json_text(j.tags), '[]')
) t
where t.type = 'text' and t.value like :pattern escape '\'
order by t.value
limit :limit;

-- name: job_worker_list
-- The last client of each of the newest jobs.
select distinct w.name
from (
  select substr(last_client(j.attempted_by), 1, 1000) as name
  from (
    select * from (select attempted_by from river_job where state = 'running' limit 500)
    union all
    select * from (
      select attempted_by from river_job
      where state = 'completed' and finalized_at is not null
      order by finalized_at desc limit 500
    )
    union all
    select * from (
      select attempted_by from river_job
      where state = 'discarded' and finalized_at is not null
      order by finalized_at desc limit 200
    )
  ) j
) w
where w.name like :pattern escape '\'
order by w.name
limit :limit;

-- name: job_path_list
-- Paths through objects only, as in containment by path; large and deep values are left out.
with recursive newest (value) as (
  select iif(length(j.args) <= 8192 and json_valid(json_text(j.args)), json_text(j.args), '{}')
  from (select /* column: */ args /* :column */ as args from river_job order by id desc limit 500) j
),
paths (path, value, type, depth) as (
  select f.key, f.value, f.type, 1
  from newest
  cross join json_each(iif(json_type(newest.value) = 'object', newest.value, '{}')) f
  where instr(f.key, '.') + instr(f.key, '"') + instr(f.key, '\') = 0
  union all
  select p.path || '.' || f.key, f.value, f.type, p.depth + 1
  from paths p
  cross join json_each(iif(p.type = 'object', p.value, '{}')) f
  where p.depth < 6 and instr(f.key, '.') + instr(f.key, '"') + instr(f.key, '\') = 0
)
select distinct path
from paths
where path like :pattern escape '\' and type <> 'object' and path not in ('output', 'river:log', 'river_encrypt')
order by path
limit :limit;
