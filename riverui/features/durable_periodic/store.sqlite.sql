-- Durable periodic jobs.

-- part: durable_periodic_columns (durable_periodic_list.columns)
id, created_at as "created_at:time", updated_at as "updated_at:time", next_run_at as "next_run_at:time",
  paused_at as "paused_at:time", run_requested_at as "run_requested_at:time", changed_at as "changed_at:time",
  changed_by, program_schedule, schedule;

-- name: durable_periodic_list
select /* columns: */ id /* :columns */
from riverui_periodic_job
/* chosen: */ where id in (select value from json_each(:ids)) /* :chosen */
order by id
limit :limit;

-- name: durable_periodic_save
-- As on Postgres. Each list has the value of a job at the same place.
insert into riverui_periodic_job (id, created_at, updated_at, next_run_at)
select g.value, :now, :now, :next_runs ->> g.key
from json_each(:ids) g
left join riverui_periodic_job p on p.id = g.value
where p.id is null
  or coalesce(p.next_run_at <= :planned ->> g.key, p.next_run_at is null and :planned ->> g.key is null)
order by g.value
on conflict (id) do update
set next_run_at = excluded.next_run_at, updated_at = excluded.updated_at
returning id;

-- name: durable_periodic_answer
update riverui_periodic_job
set run_requested_at = null
from json_each(:ids) s
where riverui_periodic_job.id = s.value and run_requested_at <= :requested ->> s.key
returning riverui_periodic_job.id;

-- name: durable_periodic_touch
update riverui_periodic_job
set updated_at = :now, program_schedule = substr(:schedules ->> s.key, 1, 200)
from json_each(:ids) s
where riverui_periodic_job.id = s.value;

-- name: durable_periodic_reap
update riverui_periodic_job
set next_run_at = null
where updated_at < riverui_after(:now, -:unused) and updated_at >= riverui_after(:now, -:changed)
  and (paused_at is not null or schedule <> '') and next_run_at is not null;
delete from riverui_periodic_job
where updated_at < riverui_after(:now, -iif(paused_at is not null or schedule <> '', :changed, :unused));
select changes() as reaped;

-- name: durable_periodic_change
update riverui_periodic_job
set paused_at = case :change when 'pause' then coalesce(paused_at, :now) when 'resume' then null else paused_at end,
  run_requested_at = iif(:change = 'run', :now, run_requested_at),
  schedule = iif(:change = 'schedule', :schedule, schedule),
  next_run_at = iif(:change in ('resume', 'schedule'), null, next_run_at),
  changed_at = :now, changed_by = substr(:username, 1, 200)
where id = :id
returning /* columns: */ id /* :columns */;
