-- Reads for explaining why a job is not running.

-- name: job_line_get
-- The order in which River fetches (JobGetAvailable), walked from its beginning up to the job.
select count(*) as before, count(*) filter (where x.priority < :priority::smallint) as more_urgent
from (
  select j.priority from /* schema */river_job j
  where j.state = 'available' and j.queue = :queue::text and j.scheduled_at <= now()
    and (j.priority, j.scheduled_at, j.id) < (:priority::smallint, :scheduled_at::timestamptz, :id::bigint)
  order by j.priority, j.scheduled_at, j.id
  limit :cap::bigint
) x;

-- name: queue_work_get
-- The jobs of each state and priority that were due last: among them are the last fetched ones, all found by the
-- fetching index. Distant times are ignored, and may be infinite. River's clients also fetch jobs of kinds that they
-- have no worker for, and fail them; long errors are not read to detect that.
with seen as materialized (
  select s.state, n.priority, x.kind, x.client, x.attempted_at, x.finalized_at, x.unknown
  from unnest('{running,completed,retryable,discarded}'::text[]::/* schema */river_job_state[]) as s (state)
  cross join generate_series(1, 4) as n (priority)
  cross join lateral (
    select j.kind, left(j.attempted_by[array_upper(j.attempted_by, 1)], 100) as client, j.finalized_at,
      case when j.attempted_at between now() - interval '1 day' and now() then j.attempted_at end as attempted_at,
      case
        when j.kind = :kind::text and s.state in ('retryable', 'discarded') and pg_column_size(j.errors) <= 32768
          then coalesce(j.errors[array_upper(j.errors, 1)] ->> 'error' like :unknown_kind::text || '%', false)
        else false
      end as unknown
    from /* schema */river_job j
    where j.state = s.state and j.queue = :queue::text and j.priority = n.priority
    order by j.scheduled_at desc
    limit :seen::bigint
  ) x
),
clients as materialized (
  select w.client, max(w.attempted_at) as taken_at
  from seen w
  where w.client is not null and w.attempted_at is not null
  group by w.client
  order by taken_at desc
  limit 50
),
since as materialized (
  -- The time since which all completed jobs are known: if a priority has more, the oldest end of those read.
  select greatest(now() - interval '10 minutes', max(w.oldest)) as ends_since
  from (
    select min(e.finalized_at) as oldest from seen e
    where e.state = 'completed'
    group by e.priority
    having count(*) >= :seen::bigint
  ) w
)
select
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'running' and j.queue = :queue::text
      order by j.priority limit :cap::bigint
    ) x
  ) as running,
  (select max(w.attempted_at) from seen w where w.kind = :kind::text and not w.unknown) as kind_at,
  (select max(w.attempted_at) from seen w where w.kind = :kind::text and w.unknown) as unknown_at,
  array(
    select distinct w.client from seen w
    where w.kind = :kind::text and w.state = 'running' and w.client is not null
    order by w.client
  ) as kind_running,
  array(
    select (select max(w.attempted_at) from seen w where w.priority = n.priority)
    from generate_series(1, 4) as n (priority) order by n.priority
  ) as started,
  array(select c.client from clients c order by c.taken_at desc, c.client) as client_names,
  array(select c.taken_at from clients c order by c.taken_at desc, c.client) as client_times,
  array(
    select e.finalized_at from seen e, since s
    where e.state = 'completed' and e.finalized_at between s.ends_since and now()
  ) as ends,
  (select s.ends_since from since s) as ends_since;

-- name: job_overtaken_get
-- The jobs of each state and priority that were due last, as in queue_work_get. Jobs to be retried are left out: they
-- were due before that.
with seen as materialized (
  select n.priority, x.id, x.kind, x.scheduled_at, x.attempted_at, x.client
  from unnest('{running,completed,discarded}'::text[]::/* schema */river_job_state[]) as s (state)
  cross join generate_series(:priority::int, 4) as n (priority)
  cross join lateral (
    select j.id, j.kind, j.scheduled_at, j.attempted_at,
      left(j.attempted_by[array_upper(j.attempted_by, 1)], 100) as client
    from /* schema */river_job j
    where j.state = s.state and j.queue = :queue::text and j.priority = n.priority
    order by j.scheduled_at desc
    limit :cap::bigint
  ) x
  where x.attempted_at <= now()
),
own as materialized (
  select w.attempted_at, w.client from seen w where w.kind = :kind::text order by w.attempted_at desc limit 1
)
select
  (
    select count(*) from seen w
    where w.kind <> :kind::text
      and (w.priority > :priority::int or (w.scheduled_at, w.id) > (:scheduled_at::timestamptz, :id::bigint))
      and w.attempted_at > greatest(:after::timestamptz, (select o.attempted_at from own o))
  ) as jobs,
  (select case when isfinite(o.attempted_at) then o.attempted_at end from own o) as kind_at,
  (select o.client from own o) as kind_by;

-- name: job_lock_get
-- A transaction that locks or changes a row leaves its id there, and holds the lock on that id until it ends.
select j.xmax::text::bigint as transaction, l.pid, l.client, l.state, l.since
from /* schema */river_job j
left join lateral (
  select k.pid, nullif(a.application_name, '') as client, a.state, a.xact_start as since
  from pg_locks k
  left join pg_stat_activity a on a.pid = k.pid
  where k.locktype = 'transactionid' and k.granted and k.transactionid = j.xmax
  limit 1
) l on j.xmax <> '0'::xid
where j.id = :id::bigint;

-- name: job_holder_list
-- Running jobs are few; the keys of those beyond the cap are not read.
select x.id, x.client
from (
  select j.id, left(j.attempted_by[array_upper(j.attempted_by, 1)], 100) as client,
    /* key: */ ''::text /* :key */ as key
  from /* schema */river_job j
  where j.state = 'running' and j.queue = :queue::text
  order by j.priority
  limit :cap::bigint
) x
where x.key = :held::text
limit :limit::bigint;

-- name: job_share_get
-- The waiting jobs that a client reads if the partition has no index, by their keys; the job's own key first.
with own as materialized (
  select /* key: */ ''::text /* :key */ as key from /* schema */river_job where id = :id::bigint
),
waiting as materialized (
  select j.id, j.priority, j.scheduled_at, /* key: */ ''::text /* :key */ as key
  from /* schema */river_job j
  where j.state = 'available' and j.queue = :queue::text and j.scheduled_at <= now()
  order by j.priority, j.scheduled_at, j.id
  limit :window::bigint
),
by_key as materialized (
  select w.key, count(*) as jobs, bool_or(w.id = :id::bigint) as reached,
    count(*) filter (
      where (w.priority, w.scheduled_at, w.id) < (:priority::smallint, :scheduled_at::timestamptz, :id::bigint)
    ) as before
  from waiting w
  group by w.key
)
select (select o.key from own o) as own, (select count(*) from by_key) as keys,
  (select coalesce(sum(b.jobs), 0)::bigint from by_key b) as looked_at, k.key, k.jobs, k.reached, k.before
from (select 1 as one) s
left join lateral (
  select b.key, b.jobs, b.reached, b.before
  from by_key b
  order by b.key = (select o.key from own o) desc, b.jobs desc, b.key
  limit :keys::bigint
) k on true;
