-- Running clients: their heartbeats, and the jobs of those that sent none for too long.
-- An invalid row must not make statements on all clients fail. So times after now or before 1970 are limited to these,
-- and intervals to a day: their sums are always valid times.

-- name: client_register
insert into /* schema */riverui_client as c (
  id, started_at, heartbeat_interval, host, pid, language, version, release, queues, running, loop_lag, memory,
  periodic
)
values (
  :id::text, least(:started_at::timestamptz, clock_timestamp()),
  make_interval(secs => :heartbeat_interval::float8), :host::text, :pid::bigint, :language::text, :version::text,
  :release::text, :queues::text::jsonb, :running::int, :loop_lag::float8, :memory::bigint,
  :periodic::text::jsonb
)
returning c.registered_at;

-- name: client_heartbeat
-- Changes nothing for a client that was declared dead. As clients are few, each heartbeat also checks all others.
with beaten as (
  update /* schema */riverui_client c
  set heartbeat_at = clock_timestamp(), queues = :queues::text::jsonb, running = :running::int,
    loop_lag = :loop_lag::float8, memory = :memory::bigint
  where c.id = :id::text and c.registered_at = :registered_at::timestamptz and c.declared_dead_at is null
  returning c.id
)
select exists (select from beaten) as alive,
  (
    select extract(epoch from min(
      case
        when o.declared_dead_at is null
          then least(greatest(o.heartbeat_at, to_timestamp(0)), clock_timestamp())
            + :dead_after::float8 * least(o.heartbeat_interval, interval '1 day')
        else least(greatest(o.declared_dead_at, to_timestamp(0)), clock_timestamp())
          + make_interval(secs => :unrescued::float8)
      end
    ) - clock_timestamp())::float8
    from /* schema */riverui_client o
    where o.rescued_at is null and (o.id, o.registered_at) <> (:id::text, :registered_at::timestamptz)
  ) as due_in;

-- name: client_schedule_list
-- Invalid values are cut, and only as many are returned as requested.
select distinct on (p.name) left(p.name, 200) as name, left(p.schedule, 200) as schedule
from (
  select c.started_at, c.periodic
  from /* schema */riverui_client c
  where c.declared_dead_at is null
    and least(c.heartbeat_at, clock_timestamp())
      + :silent_after::float8 * least(c.heartbeat_interval, interval '1 day') >= clock_timestamp()
  order by c.started_at desc
  limit 1000
) c
cross join lateral (select e.key as name, e.value as schedule from jsonb_each_text(c.periodic) e limit :limit::bigint) p
order by p.name, c.started_at desc
limit :limit::bigint;

-- name: client_delete
delete from /* schema */riverui_client c
where c.id = :id::text and c.registered_at = :registered_at::timestamptz
returning c.id;

-- name: client_declare_dead
-- Locks the row, checks it again and changes it: a heartbeat comes before that, or is refused afterwards.
with silent as materialized (
  select c.id, c.registered_at
  from /* schema */riverui_client c
  where c.rescued_at is null /* terms */
    and case
      when c.declared_dead_at is null
        then least(c.heartbeat_at, clock_timestamp())
          + :after::float8 * least(c.heartbeat_interval, interval '1 day') < clock_timestamp()
      else least(c.declared_dead_at, clock_timestamp()) + make_interval(secs => :unrescued::float8) < clock_timestamp()
    end
  order by c.heartbeat_at
  limit 1
  for update skip locked
)
update /* schema */riverui_client c
set declared_dead_at = coalesce(c.declared_dead_at, clock_timestamp()), declared_dead_by = left(:by::text, 200)
from silent s
where c.id = s.id and c.registered_at = s.registered_at
returning c.id, c.registered_at, c.host, c.pid, c.heartbeat_at,
  least(
    c.declared_dead_at,
    (
      select min(o.registered_at) from /* schema */riverui_client o
      where o.id = c.id and o.registered_at > c.registered_at
    )
  ) as attempted_before;

-- part: client_of_id (client_declare_dead.terms)
and c.id = :of_id::text;

-- name: client_rescued
update /* schema */riverui_client c
set rescued_at = clock_timestamp(), rescued = c.rescued + :jobs::int
where c.id = :id::text and c.registered_at = :registered_at::timestamptz and c.declared_dead_at is not null
returning c.id;

-- name: client_delete_dead_before
delete from /* schema */riverui_client c
where (c.id, c.registered_at) in (
  select o.id, o.registered_at from /* schema */riverui_client o
  where o.declared_dead_at < :before::timestamptz
  limit :limit::bigint
  for update skip locked
)
returning c.id;

-- name: client_list
select c.id, c.registered_at, c.started_at, least(c.heartbeat_at, clock_timestamp()) as heartbeat_at,
  extract(epoch from least(c.heartbeat_interval, interval '1 day'))::float8 as heartbeat_interval, c.host, c.pid,
  c.language, c.version, c.release, c.queues::text as queues, c.running, c.loop_lag, c.memory, c.declared_dead_at,
  c.declared_dead_by, c.rescued_at, c.rescued, clock_timestamp() as now
from /* schema */riverui_client c
order by c.declared_dead_at is not null, c.declared_dead_at desc, c.heartbeat_at, c.id
limit :limit::bigint;

-- name: client_other_leader
-- A leader without a row is not a client of riverui, or sends no heartbeats.
select l.leader_id, /* claimed: */ false /* :claimed */ as claimed
from /* schema */river_leader l
where l.expires_at >= now()
  and not exists (
    select from /* schema */riverui_client c where c.id = l.leader_id and c.declared_dead_at is null
  );

-- part: client_stand_in (client_other_leader.claimed)
-- Held until the end of the transaction, so that it works behind a pooler too.
pg_try_advisory_xact_lock(
  hashtext(concat(coalesce(:schema::text, current_schema()), '.riverui_stand_in'))
);

-- name: client_seen_list
-- The last entry of `attempted_by` is the client that works the job, or worked it last. Arrays far longer than River's
-- hundred are ignored: they would have to be decompressed in full.
with running as materialized (
  select r.id, r.kind, r.queue, r.attempted_at, left(r.attempted_by[array_upper(r.attempted_by, 1)], 100) as client
  from (
    select j.id, j.kind, j.queue, j.attempted_at, j.attempted_by from /* schema */river_job j
    where j.state = 'running'
    limit :cap::bigint
  ) r
  where pg_column_size(r.attempted_by) <= 32768
),
holding as (
  select r.client, array_agg(r.id order by r.place) as job_ids, array_agg(r.kind order by r.place) as kinds,
    array_agg(r.queue order by r.place) as job_queues, array_agg(r.attempted_at order by r.place) as attempted_at
  from (
    select o.id, o.kind, o.queue, o.attempted_at, o.client,
      row_number() over (partition by o.client order by o.attempted_at, o.id) as place
    from running o
  ) r
  where r.place <= :held::bigint
  group by r.client
),
counted as (
  select c.client, array_agg(c.kind order by c.place) as held_kinds,
    array_agg(c.number order by c.place) as held_numbers
  from (
    select r.client, r.kind, count(*) as number,
      row_number() over (partition by r.client order by count(*) desc, r.kind) as place
    from running r
    group by r.client, r.kind
  ) c
  where c.place <= :held::bigint
  group by c.client
),
seen as (
  select r.client, r.queue, r.attempted_at, true as held from running r
  union all
  select left(d.attempted_by[array_upper(d.attempted_by, 1)], 100), d.queue, d.attempted_at, false
  from (
    select j.queue, j.attempted_at, j.attempted_by from /* schema */river_job j
    where j.state = 'completed' and j.finalized_at is not null
    order by j.finalized_at desc
    limit :newest::bigint
  ) d
  where pg_column_size(d.attempted_by) <= 32768
),
client as (
  select s.client as id, count(*) filter (where s.held) as running, max(s.attempted_at) as seen_at,
    (array_agg(distinct s.queue order by s.queue))[:10] as queues
  from seen s
  where s.client is not null
  group by s.client
  order by s.client
  limit :limit::bigint
)
select c.id, c.running, c.seen_at, c.queues, coalesce(h.job_ids, '{}') as job_ids, coalesce(h.kinds, '{}') as kinds,
  coalesce(h.job_queues, '{}') as job_queues, coalesce(h.attempted_at, '{}') as attempted_at,
  coalesce(k.held_kinds, '{}') as held_kinds, coalesce(k.held_numbers, '{}') as held_numbers
from client c
left join holding h on h.client = c.id
left join counted k on k.client = c.id
order by c.id;

-- name: job_get_held
-- Like job_get_stuck: running jobs are few. Jobs that the client took since it was declared dead, or that a later
-- client of the same id holds, are left out.
with running as materialized (
  select j.id
  from /* schema */river_job j
  where j.state = 'running' and j.id > :after_id::bigint
    and j.attempted_at >= :registered_at::timestamptz and j.attempted_at < :attempted_before::timestamptz
    and j.attempted_by[array_upper(j.attempted_by, 1)] = :client_id::text
),
held as materialized (
  select r.id from running r order by r.id limit :limit::bigint
)
/* rows: */
select /* columns: */ j.id /* :columns */
from /* schema */river_job j
where j.id = any(array(select h.id from held h)) and (j.state = 'running') is true
order by j.id
/* :rows */;

-- part: job_first_held (job_get_held.rows)
-- Ends job_get_held to return only the ids.
select h.id from held h;
