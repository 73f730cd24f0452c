-- name: periodic_history_list
-- No index has the metadata: only the newest jobs are read. If there are more, as many count as read as are too many.
with seen as materialized (
  select j.id, j.state, substr(j.kind, 1, :name_length) as kind, substr(j.queue, 1, :name_length) as queue,
    j.scheduled_at, j.attempted_at, j.finalized_at, j.attempt,
    substr(coalesce(j.metadata ->> '$."river:periodic_job_id"', ''), 1, :name_length) as name
  from (
    select j.id, j.state, j.kind, j.queue, j.scheduled_at, j.attempted_at, j.finalized_at, j.attempt,
      iif(instr(j.metadata, 'periodic') and json_valid(json_text(j.metadata)), json_text(j.metadata), null) as metadata
    from /* jobs: */ (
      select id, state, kind, queue, scheduled_at, attempted_at, finalized_at, attempt, metadata
      from river_job order by id desc limit 20000
    ) j /* :jobs */
  ) j
  where coalesce(json_type(j.metadata, '$."river:periodic_job_id"'), json_type(j.metadata, '$.periodic')) is not null
  limit :most
),
placed as (
  select s.*, count(*) over same as jobs, row_number() over (same order by s.id desc) as place
  from seen s
  window same as (partition by s.name, iif(s.name = '', s.kind, null))
)
select p.id, p.state, p.kind, p.queue, p.scheduled_at as "scheduled_at:time", p.attempted_at as "attempted_at:time",
  p.finalized_at as "finalized_at:time", p.attempt, p.name, p.jobs, iif(
    (select count(*) from (select 1 from river_job limit 20001)) > 20000, :most, (select count(*) from seen)
  ) as looked_at
from placed p
where p.place <= :runs
order by p.name, iif(p.name = '', p.kind, null), p.place
limit :names * :runs;

-- part: periodic_newest (periodic_history_list.jobs)
(
  select id, state, kind, queue, scheduled_at, attempted_at, finalized_at, attempt, metadata
  from river_job order by id desc limit :window
) j;
