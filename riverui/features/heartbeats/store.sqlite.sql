-- Running clients: their heartbeats, and the jobs of those that sent none for too long. As on Postgres, times after now
-- and intervals of more than a day are limited to these.

-- name: client_register
insert into riverui_client (
  id, registered_at, started_at, heartbeat_at, heartbeat_interval, host, pid, language, version, release, queues,
  running, loop_lag, memory, periodic
)
values (
  :id, :now, min(:started_at, :now), :now, :heartbeat_interval, :host, :pid, :language, :version, :release, :queues,
  :running, :loop_lag, :memory, :periodic
)
returning registered_at as "registered_at:time";

-- name: client_heartbeat
-- Changes nothing for a client that was declared dead.
update riverui_client
set heartbeat_at = :now, queues = :queues, running = :running, loop_lag = :loop_lag, memory = :memory
where id = :id and registered_at = :registered_at and declared_dead_at is null;
select changes() > 0 as "alive:bool",
  (
    select riverui_seconds(:now, min(iif(
      declared_dead_at is null,
      riverui_after(min(heartbeat_at, :now), :dead_after * min(heartbeat_interval, 86400)),
      riverui_after(min(declared_dead_at, :now), :unrescued)
    )))
    from riverui_client
    where rescued_at is null and (id, registered_at) <> (:id, :registered_at)
  ) as due_in;

-- name: client_schedule_list
-- Invalid values are cut, and only as many are returned as requested.
select substr(e.key, 1, 200) as name, substr(e.value, 1, 200) as schedule, max(c.started_at) as started_at
from (
  select started_at, periodic
  from riverui_client
  where declared_dead_at is null
    and riverui_after(min(heartbeat_at, :now), :silent_after * min(heartbeat_interval, 86400)) >= :now
    and json_valid(periodic)
  order by started_at desc
  limit 1000
) c
cross join json_each(c.periodic) e
group by 1
order by 1
limit :limit;

-- name: client_delete
delete from riverui_client where id = :id and registered_at = :registered_at returning id;

-- name: client_declare_dead
update riverui_client as c
set declared_dead_at = coalesce(c.declared_dead_at, :now), declared_dead_by = substr(:by, 1, 200)
where c.rowid = (
  select rowid from riverui_client
  where rescued_at is null /* terms */
    and iif(
      declared_dead_at is null,
      riverui_after(min(heartbeat_at, :now), :after * min(heartbeat_interval, 86400)),
      riverui_after(min(declared_dead_at, :now), :unrescued)
    ) < :now
  order by heartbeat_at
  limit 1
)
returning id, registered_at as "registered_at:time", host, pid, heartbeat_at as "heartbeat_at:time",
  min(
    declared_dead_at,
    coalesce(
      (
        select min(o.registered_at) from riverui_client o
        where o.id = riverui_client.id and o.registered_at > riverui_client.registered_at
      ),
      declared_dead_at
    )
  ) as "attempted_before:time";

-- part: client_of_id (client_declare_dead.terms)
and id = :of_id;

-- name: client_rescued
update riverui_client
set rescued_at = :now, rescued = rescued + :jobs
where id = :id and registered_at = :registered_at and declared_dead_at is not null
returning id;

-- name: client_delete_dead_before
delete from riverui_client
where rowid in (select rowid from riverui_client where declared_dead_at < :before limit :limit)
returning id;

-- name: client_list
select id, registered_at as "registered_at:time", started_at as "started_at:time",
  min(heartbeat_at, :now) as "heartbeat_at:time", min(heartbeat_interval, 86400.0) as heartbeat_interval, host, pid,
  language, version, release, queues, running, loop_lag, memory, declared_dead_at as "declared_dead_at:time",
  declared_dead_by, rescued_at as "rescued_at:time", rescued, :now as "now:time"
from riverui_client
order by declared_dead_at is not null, declared_dead_at desc, heartbeat_at, id
limit :limit;

-- name: client_other_leader
-- A leader without a row is not a client of riverui, or sends no heartbeats.
select leader_id, /* claimed: */ 0 /* :claimed */ as "claimed:bool"
from river_leader
where expires_at >= :now
  and not exists (select 1 from riverui_client c where c.id = leader_id and c.declared_dead_at is null);

-- part: client_stand_in (client_other_leader.claimed)
-- Never: a transaction that lasts would keep all others from writing.
0;

-- name: client_seen_list
-- The last entry of `attempted_by` is the client that works the job, or worked it last.
with running as materialized (
  select id, kind, queue, attempted_at, substr(json_text(attempted_by) ->> '$[#-1]', 1, 100) as client
  from (
    select id, kind, queue, attempted_at, attempted_by from river_job where state = 'running' limit :cap
  )
  where length(attempted_by) <= 32768 and json_valid(json_text(attempted_by))
),
placed as materialized (
  select *, row_number() over (partition by client order by attempted_at, id) as place from running
),
counted as materialized (
  select client, kind, count(*) as number,
    row_number() over (partition by client order by count(*) desc, kind) as place
  from running
  group by client, kind
),
seen as materialized (
  select client, queue, attempted_at, 1 as held from running
  union all
  select substr(json_text(attempted_by) ->> '$[#-1]', 1, 100), queue, attempted_at, 0
  from (
    select queue, attempted_at, attempted_by from river_job
    where state = 'completed' and finalized_at is not null
    order by finalized_at desc
    limit :newest
  )
  where length(attempted_by) <= 32768 and json_valid(json_text(attempted_by))
)
select s.client as id, sum(s.held) as running, max(s.attempted_at) as "seen_at:time",
  (
    select json_group_array(queue)
    from (select distinct queue from seen where client = s.client order by queue limit 10)
  ) as "queues:json",
  (
    select json_group_array(id) from (select id from placed where client = s.client and place <= :held order by place)
  ) as "job_ids:json",
  (
    select json_group_array(kind)
    from (select kind from placed where client = s.client and place <= :held order by place)
  ) as "kinds:json",
  (
    select json_group_array(queue)
    from (select queue from placed where client = s.client and place <= :held order by place)
  ) as "job_queues:json",
  (
    select json_group_array(attempted_at)
    from (select attempted_at from placed where client = s.client and place <= :held order by place)
  ) as "attempted_at:times",
  (
    select json_group_array(kind)
    from (select kind from counted where client = s.client and place <= :held order by place)
  ) as "held_kinds:json",
  (
    select json_group_array(number)
    from (select number from counted where client = s.client and place <= :held order by place)
  ) as "held_numbers:json"
from seen s
where s.client is not null
group by s.client
order by s.client
limit :limit;

-- name: job_get_held
-- Jobs that the client took since it was declared dead, or that a later client of the same id holds, are left out.
with held as (
  select id
  from river_job
  where state = 'running' and id > :after_id and attempted_at >= :registered_at and attempted_at < :attempted_before
    and iif(json_valid(json_text(attempted_by)), json_text(attempted_by) ->> '$[#-1]', null) = :client_id
  order by id
  limit :limit
)
/* rows: */
select /* columns: */ j.id /* :columns */ from river_job j where j.id in (select id from held) order by j.id
/* :rows */;

-- part: job_first_held (job_get_held.rows)
-- Ends job_get_held to return only the ids.
select id from held;
