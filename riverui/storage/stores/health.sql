-- Reads for the health report. Names of people and programs are cut: rows may contain anything.

-- name: health_running
select j.id, left(j.queue, 200) as queue, left(j.kind, 200) as kind,
  coalesce(left(j.attempted_by[array_upper(j.attempted_by, 1)], 200), '') as client, j.attempted_at
from /* schema */river_job j
where j.state = 'running'
order by j.queue, j.priority, j.scheduled_at
limit :cap::bigint;

-- name: health_overdue
-- Each state and priority of each queue is a short scan at the beginning of its part of the fetching index.
select count(*) as jobs, min(x.scheduled_at) as oldest_at
from (
  select d.scheduled_at
  from unnest(:queues::text[]) as q (name)
  cross join unnest('{scheduled,retryable}'::text[]::/* schema */river_job_state[]) as s (state)
  cross join generate_series(1, 4) as n (priority)
  cross join lateral (
    select j.scheduled_at from /* schema */river_job j
    where j.state = s.state and j.queue = q.name and j.priority = n.priority
      and j.scheduled_at <= :due_before::timestamptz
    order by j.scheduled_at limit 200
  ) d
  limit :cap::bigint
) x;

-- name: health_waiting_kinds
-- The next jobs in River's order; one that has been attempted has failed, or was rescued or snoozed.
select x.queue, left(x.kind, 200) as kind, count(*) as jobs, count(*) filter (where x.tried) as retries,
  count(*) filter (where x.tried and x.place <= least(:first::bigint, (x.waiting + 1) / 2)) as first,
  min(x.priority) as priority, (array_agg(x.scheduled_at order by x.place))[1] as since
from (
  select q.name as queue, n.kind, n.priority, n.scheduled_at, n.tried,
    count(*) over (partition by q.name) as waiting,
    row_number() over (partition by q.name order by n.priority, n.scheduled_at) as place
  from unnest(:queues::text[]) as q (name)
  cross join lateral (
    select j.kind, j.priority, j.scheduled_at, j.attempt > 0 as tried
    from /* schema */river_job j
    where j.state = 'available' and j.queue = q.name and j.scheduled_at <= :now::timestamptz
    order by j.priority, j.scheduled_at
    limit :cap::bigint
  ) n
) x
group by x.queue, left(x.kind, 200)
order by x.queue, jobs desc
limit 1000;

-- name: health_waiting_overtaken
-- The jobs of each state and priority that were due last, as for takers. Jobs to be retried are left out: they were
-- due before that. The leader may have made a waiting job available some seconds after it was due.
with asked as materialized (
  select * from unnest(:queues::text[], :kinds::text[], :priorities::smallint[], :since::timestamptz[])
    as a (queue, kind, priority, since)
),
seen as materialized (
  select q.name as queue, n.priority, left(x.kind, 200) as kind, x.scheduled_at, x.attempted_at
  from (select distinct a.queue as name from asked a) q
  cross join unnest('{running,completed,discarded}'::text[]::/* schema */river_job_state[]) as s (state)
  cross join generate_series(1, 4) as n (priority)
  cross join lateral (
    select j.kind, j.scheduled_at, j.attempted_at
    from /* schema */river_job j
    where j.state = s.state and j.queue = q.name and j.priority = n.priority
    order by j.scheduled_at desc
    limit :newest::bigint
  ) x
  where x.attempted_at between :now::timestamptz - interval '1 day' and :now::timestamptz
)
select a.queue, a.kind, k.taken_at, (
    select count(*) from seen w
    where w.queue = a.queue and w.kind <> a.kind
      and (w.priority > a.priority or w.priority = a.priority and w.scheduled_at > a.since)
      and w.attempted_at > greatest(a.since + :grace::float8 * interval '1 second', k.taken_at)
  ) as overtaken
from asked a
cross join lateral (
  select max(w.attempted_at) as taken_at from seen w where w.queue = a.queue and w.kind = a.kind
) k;

-- name: health_waiting_takers
-- The jobs of each state and priority that were due last: among them are the last fetched ones. Distant times are
-- ignored.
select q.name as queue, left(x.client, 200) as client, max(x.attempted_at) as taken_at
from unnest(:queues::text[]) as q (name)
cross join unnest('{running,completed,retryable,discarded}'::text[]::/* schema */river_job_state[]) as s (state)
cross join generate_series(1, 4) as n (priority)
cross join lateral (
  select j.attempted_by[array_upper(j.attempted_by, 1)] as client, j.attempted_at
  from /* schema */river_job j
  where j.state = s.state and j.queue = q.name and j.priority = n.priority
  order by j.scheduled_at desc
  limit 20
) x
where x.client is not null
  and x.attempted_at between :now::timestamptz - interval '1 day' and :now::timestamptz
group by q.name, left(x.client, 200)
order by taken_at desc
limit 200;

-- name: health_tried
-- Rescued jobs are retried: they run, or wait for it. `most` is how many of a state were read. Those that most clients
-- have tried come first: a client that was killed comes back with another id.
with seen as materialized (
  select s.state, x.id, x.attempt, x.clients
  from unnest('{running,available,retryable}'::text[]::/* schema */river_job_state[]) as s (state)
  cross join lateral (
    select j.id, j.attempt, (
        select count(distinct left(c.id, 200)) from unnest(j.attempted_by) as c (id)
      ) as clients
    from /* schema */river_job j
    where j.state = s.state
    order by j.queue, j.priority, j.scheduled_at
    limit :seen::bigint
  ) x
)
select
  coalesce((select max(n.jobs) from (select count(*) as jobs from seen w group by w.state) n), 0) as most,
  array(
    select w.id from seen w where w.attempt > 1 order by w.clients desc, w.attempt desc limit :most::bigint
  ) as ids;

-- name: health_lost
-- Rescues are counted in the metadata by River since 0.30, and are errors of the job before.
select x.id, x.queue, x.kind, x.rescues, x.attempted_at
from (
  select j.id, left(j.queue, 200) as queue, left(j.kind, 200) as kind, j.attempted_at, greatest(
      case
        when jsonb_typeof(j.metadata -> 'river:rescue_count') = 'number'
          and j.metadata ->> 'river:rescue_count' ~ '^\d{1,6}$'
          then (j.metadata ->> 'river:rescue_count')::int
        else 0
      end,
      (select count(*) from unnest(j.errors) as e (error) where e.error ->> 'error' like 'Stuck job rescued by %')
    )::int as rescues
  from /* schema */river_job j
  where j.id = any(:ids::bigint[])
) x
where x.rescues > 1
order by x.rescues desc, x.id
limit :limit::bigint;

-- name: health_rhythm_list
-- From one kind to the next along its index. Of kinds with more jobs nothing is known; a pause of the whole table is
-- not one of a kind.
with recursive kinds as (
  (select j.kind, 1 as n from /* schema */river_job j order by j.kind limit 1)
  union all
  select (select j.kind from /* schema */river_job j where j.kind > k.kind order by j.kind limit 1), k.n + 1
  from kinds k
  where k.kind is not null and k.n < :kinds::bigint
),
seen as materialized (
  select k.kind, x.created_at, x.created_at - lag(x.created_at) over (partition by k.kind order by x.created_at) as gap
  from kinds k
  cross join lateral (
    select j.created_at from /* schema */river_job j where j.kind = k.kind limit :most::bigint
  ) x
  where k.kind is not null
)
select left(s.kind, 200) as kind, min(s.created_at) as first_at, max(s.created_at) as last_at,
  count(*) filter (where s.gap > interval '1 second') as gaps,
  percentile_cont(0.1) within group (order by s.gap) filter (where s.gap > interval '1 second') as short,
  percentile_cont(0.5) within group (order by s.gap) filter (where s.gap > interval '1 second') as usual,
  percentile_cont(0.9) within group (order by s.gap) filter (where s.gap > interval '1 second') as long,
  max(s.gap) as longest, min(min(s.created_at)) over () as since
from seen s
where isfinite(s.created_at)
group by s.kind
having count(*) < :most::bigint;

-- name: health_database
-- A session that the role may not inspect has neither a start nor a state. Only transactions with an id or a snapshot
-- keep Postgres from cleaning up; prepared ones do so without a process.
with sessions as materialized (
  select a.pid, coalesce(nullif(left(a.application_name, 200), ''), a.usename, '') as client, a.state, a.xact_start,
    a.query_start, a.wait_event_type, a.backend_xid is not null or a.backend_xmin is not null as holds, a.query
  from pg_stat_activity a
  where a.datname = current_database() and coalesce(a.backend_type, 'client backend') = 'client backend'
    and a.usesysid is not null and a.pid <> pg_backend_pid()
),
open as (
  select s.pid, s.client, coalesce(s.state, '') as state, s.xact_start as since
  from sessions s
  where s.holds and s.xact_start is not null
  union all
  select null, left(p.gid, 200), 'prepared', p.prepared
  from pg_prepared_xacts p
  where p.database = current_database()
),
oldest as (
  select o.pid, o.client, o.state, o.since from open o order by o.since limit 1
),
waiting as (
  select s.pid, s.query_start from sessions s
  where s.wait_event_type = 'Lock' and s.state = 'active' and s.query ilike '%river\_%'
),
first_waiting as materialized (
  select w.pid, w.query_start from waiting w order by w.query_start limit 1
),
blocker as (
  select s.pid, s.client, coalesce(s.state, '') as state, s.xact_start as since
  from first_waiting f
  cross join lateral unnest(pg_blocking_pids(f.pid)) as b (pid)
  join sessions s on s.pid = b.pid
  where s.xact_start is not null
  order by s.xact_start limit 1
)
select
  o.pid as open_pid, o.client as open_client, o.state as open_state, o.since as open_since,
  (select count(*) from sessions s where s.state is null) as hidden,
  (select count(*) from waiting) as blocked, f.query_start as blocked_since,
  b.pid as blocker_pid, b.client as blocker_client, b.state as blocker_state, b.since as blocker_since,
  case when pg_is_in_recovery() then 0 else pg_notification_queue_usage() end::float8 as notifications,
  pg_is_in_recovery() as standby,
  coalesce(pg_stat_get_dead_tuples(to_regclass('/* schema */river_job')), 0) as dead_rows
from (select 1) as one
left join oldest o on true
left join first_waiting f on true
left join blocker b on true;
