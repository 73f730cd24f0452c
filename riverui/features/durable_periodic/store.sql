-- Durable periodic jobs.

-- part: durable_periodic_columns (durable_periodic_list.columns)
p.id, p.created_at, p.updated_at, p.next_run_at, p.paused_at, p.run_requested_at, p.changed_at, p.changed_by,
  p.program_schedule, p.schedule;

-- name: durable_periodic_list
select /* columns: */ p.id /* :columns */
from /* schema */riverui_periodic_job p
/* chosen: */ where p.id = any(:ids::text[]) /* :chosen */
order by p.id
limit :limit::bigint;

-- name: durable_periodic_save
-- A planned run is saved if the row is still at that run; an unplanned one if there is no row or its next run is yet to
-- be computed.
with given as (
  select s.id, s.next_run_at, s.planned_at
  from unnest(:ids::text[], :next_runs::timestamptz[], :planned::timestamptz[]) as s (id, next_run_at, planned_at)
),
locked as materialized (
  select p.id, p.next_run_at from /* schema */riverui_periodic_job p
  where p.id = any(:ids::text[])
  order by p.id
  for update
)
insert into /* schema */riverui_periodic_job as p (id, next_run_at)
select g.id, g.next_run_at
from given g
left join locked l on l.id = g.id
where l.id is null or coalesce(l.next_run_at <= g.planned_at, l.next_run_at is null and g.planned_at is null)
order by g.id
on conflict (id) do update
set next_run_at = excluded.next_run_at, updated_at = clock_timestamp()
returning p.id;

-- name: durable_periodic_answer
update /* schema */riverui_periodic_job p
set run_requested_at = null
from unnest(:ids::text[], :requested::timestamptz[]) as s (id, requested_at)
where p.id = s.id and p.run_requested_at <= s.requested_at
returning p.id;

-- name: durable_periodic_touch
update /* schema */riverui_periodic_job p
set updated_at = clock_timestamp(), program_schedule = left(s.schedule, 200)
from unnest(:ids::text[], :schedules::text[]) as s (id, schedule)
where p.id = s.id;

-- name: durable_periodic_reap
with cleared as (
  update /* schema */riverui_periodic_job p
  set next_run_at = null
  where p.updated_at < clock_timestamp() - make_interval(secs => :unused::float8)
    and p.updated_at >= clock_timestamp() - make_interval(secs => :changed::float8)
    and (p.paused_at is not null or p.schedule <> '') and p.next_run_at is not null
),
gone as (
  delete from /* schema */riverui_periodic_job p
  where p.updated_at < clock_timestamp() - make_interval(
    secs => case when p.paused_at is not null or p.schedule <> '' then :changed::float8 else :unused::float8 end
  )
  returning p.id
)
select count(*) as reaped from gone;

-- name: durable_periodic_change
update /* schema */riverui_periodic_job as p
set paused_at = case :change::text
    when 'pause' then coalesce(p.paused_at, clock_timestamp())
    when 'resume' then null
    else p.paused_at
  end,
  run_requested_at = case :change::text when 'run' then clock_timestamp() else p.run_requested_at end,
  schedule = case :change::text when 'schedule' then :schedule::text else p.schedule end,
  next_run_at = case when :change::text in ('resume', 'schedule') then null else p.next_run_at end,
  changed_at = clock_timestamp(), changed_by = left(:username::text, 200)
where p.id = :id::text
returning /* columns: */ p.id /* :columns */;
