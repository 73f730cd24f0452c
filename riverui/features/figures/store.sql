-- Figures. First those read from River's rows: jobs that ended, failed, were inserted, and wait, each from a bounded
-- part of an index. Then `riverui_rollup`: a rollup is one row for everything (no queue, no kind), which shows that it
-- is stored, one for each queue (no kind), and one for each kind in a queue. Rows for charts have no `source`. The
-- counts of a client are stored under its name, only by kind in a queue, until a dashboard has read them.

-- name: figure_clock_get
select clock_timestamp() as now, coalesce((select max(j.id) from /* schema */river_job j), 0) as last_id;

-- name: job_ended_tally_list
-- Each range of time lies within one bucket, and is one range of River's partial index on (state, finalized_at) for
-- each final state. `mod(j.attempt, 1) = 0` is always true: it keeps the planner from expecting more rows than it would
-- group by hashing. Bins take one byte a job, after a zero that marks this format: grouped by bins, nearly each job
-- would be a group. Infinite and missing times have no span.
with ended as materialized (
  select to_timestamp(floor(extract(epoch from r.since) / :step::int) * :step::int) as bucket,
    s.state, j.queue, j.kind, count(*) as jobs, sum(j.run_us) as run_sum, max(j.run_us) as run_max,
    string_agg(
      set_byte('\x00'::bytea, 0, case
        when j.run_us <= 1 then 0
        when j.run_us > 1
          then least(greatest(ceil(ln(j.run_us) / :log_gamma::float8), :first::int), :last::int)::int - :first::int
      end),
      ''::bytea
    ) as run_bins,
    sum(j.wait_us) as wait_sum, max(j.wait_us) as wait_max,
    string_agg(
      set_byte('\x00'::bytea, 0, case
        when j.wait_us <= 1 then 0
        when j.wait_us > 1
          then least(greatest(ceil(ln(j.wait_us) / :log_gamma::float8), :first::int), :last::int)::int - :first::int
      end),
      ''::bytea
    ) as wait_bins
  from unnest(:since::timestamptz[], :until::timestamptz[]) as r (since, until)
  cross join unnest('{cancelled,completed,discarded}'::text[]::/* schema */river_job_state[]) as s (state)
  cross join lateral (
    select j.queue, j.kind,
      case when s.state <> 'cancelled' and isfinite(j.attempted_at)
        then greatest(round(date_part('epoch', j.finalized_at - j.attempted_at) * 1e6), 0)
      end as run_us,
      case
        when isfinite(j.attempted_at) and isfinite(j.scheduled_at)
            and (s.state <> 'cancelled' or j.attempted_at >= j.scheduled_at)
          then greatest(round(date_part('epoch', j.attempted_at - j.scheduled_at) * 1e6), 0)
      end as wait_us
    from /* schema */river_job j
    where j.state = s.state and j.finalized_at >= r.since and j.finalized_at < r.until and mod(j.attempt, 1) = 0
    offset 0
  ) j
  group by 1, s.state, j.queue, j.kind
),
pairs as materialized (
  select e.queue, e.kind
  from ended e
  group by e.queue, e.kind
  order by sum(e.jobs) desc, e.queue, e.kind
  limit :pairs::bigint
),
queues as materialized (
  select distinct p.queue from pairs p
)
select e.bucket, left(coalesce(q.queue, :other::text), 200) as queue,
  left(coalesce(p.kind, :other::text), 200) as kind,
  coalesce(sum(e.jobs) filter (where e.state = 'completed'), 0)::bigint as completed,
  coalesce(sum(e.jobs) filter (where e.state = 'cancelled'), 0)::bigint as cancelled,
  coalesce(sum(e.jobs) filter (where e.state = 'discarded'), 0)::bigint as discarded,
  0 as failed, 0 as snoozed, 0 as interrupted, 0 as inserted, 0 as cpu_us, 0 as cpu_attempts,
  least(coalesce(sum(e.run_sum) filter (where e.state = 'completed'), 0), 9e18)::bigint as run_sum_us,
  least(coalesce(max(e.run_max) filter (where e.state = 'completed'), 0), 9e18)::bigint as run_max_us,
  '\x00'::bytea || string_agg(e.run_bins, ''::bytea) filter (where e.state = 'completed') as run_bins,
  least(coalesce(sum(e.run_sum) filter (where e.state = 'discarded'), 0), 9e18)::bigint as failed_run_sum_us,
  least(coalesce(max(e.run_max) filter (where e.state = 'discarded'), 0), 9e18)::bigint as failed_run_max_us,
  '\x00'::bytea || string_agg(e.run_bins, ''::bytea) filter (where e.state = 'discarded') as failed_run_bins,
  least(coalesce(sum(e.wait_sum), 0), 9e18)::bigint as wait_sum_us,
  least(coalesce(max(e.wait_max), 0), 9e18)::bigint as wait_max_us,
  '\x00'::bytea || string_agg(e.wait_bins, ''::bytea) as wait_bins
from ended e
left join pairs p on p.queue = e.queue and p.kind = e.kind
left join queues q on q.queue = e.queue
group by 1, 2, 3;

-- name: job_ended_failure_list
-- Jobs of such ranges that were tried more than once, or discarded. The last attempt of a discarded job is known
-- without its errors, which may be long.
with ended as materialized (
  select s.state, j.id, j.attempt, j.attempted_at, j.queue, j.kind,
    case when j.attempt > 1 then j.errors end as errors
  from unnest(:since::timestamptz[], :until::timestamptz[]) as r (since, until)
  cross join unnest(:states::text[]::/* schema */river_job_state[]) as s (state)
  cross join lateral (
    select j.id, j.attempt, j.attempted_at, j.queue, j.kind, j.errors
    from /* schema */river_job j
    where j.state = s.state and j.finalized_at >= r.since and j.finalized_at < r.until
      and (j.attempt > 1 or s.state = 'discarded')
    offset 0
  ) j
  limit :limit::bigint
)
select w.id, w.attempt::text as attempt, w.attempted_at as at, null as written_at, left(w.queue, 200) as queue,
  left(w.kind, 200) as kind
from ended w
where w.state = 'discarded' and isfinite(w.attempted_at)
union all
select w.id, left(e.error ->> 'attempt', 9) as attempt, null as at, left(e.error ->> 'at', 40) as written_at,
  left(w.queue, 200) as queue, left(w.kind, 200) as kind
from ended w
cross join lateral (
  select u.error from unnest(w.errors) with ordinality as u (error, n) order by u.n desc limit 10
) e;

-- name: job_unfinished_failure_list
-- In the order of the fetching index. A retryable job's last attempt is known without its errors.
with failed as materialized (
  select s.state, j.id, j.attempt, j.attempted_at, j.queue, j.kind,
    case when s.state <> 'retryable' or (:earlier::boolean and j.attempt > 1) then j.errors end as errors
  from unnest('{retryable,running,available}'::text[]::/* schema */river_job_state[]) as s (state)
  cross join lateral (
    select x.id, x.attempt, x.attempted_at, x.queue, x.kind, x.errors from (
      select j.id, j.attempt, j.attempted_at, j.queue, j.kind, j.errors
      from /* schema */river_job j
      where j.state = s.state
      order by j.queue, j.priority, j.scheduled_at, j.id
      limit case s.state
        when 'retryable' then :cap::bigint when 'running' then :cap::bigint / 5 else :cap::bigint / 25
      end
    ) x
    where x.attempted_at >= :since::timestamptz and isfinite(x.attempted_at)
      and (s.state = 'retryable' or x.attempt > case s.state when 'running' then 1 else 0 end)
  ) j
  limit :limit::bigint
)
select w.id, w.attempt::text as attempt, w.attempted_at as at, null as written_at, left(w.queue, 200) as queue,
  left(w.kind, 200) as kind
from failed w
where w.state = 'retryable'
union all
select w.id, left(e.error ->> 'attempt', 9) as attempt, null as at, left(e.error ->> 'at', 40) as written_at,
  left(w.queue, 200) as queue, left(w.kind, 200) as kind
from failed w
cross join lateral (
  select u.error from unnest(w.errors) with ordinality as u (error, n) order by u.n desc limit 10
) e;

-- name: job_inserted_tally_list
-- Ids are handed out in order, so that the primary key finds the newest jobs.
with newest as materialized (
  select j.id, date_trunc('minute', j.created_at) as at, j.queue, j.kind
  from /* schema */river_job j
  where j.id > :after::bigint and j.id <= :upto::bigint
  order by j.id desc
  limit :limit::bigint
)
select n.at, left(n.queue, 200) as queue, left(n.kind, 200) as kind, count(*) as jobs, min(n.id) as first_id
from newest n
group by n.at, n.queue, n.kind
order by jobs desc;

-- name: queue_waiting_list
-- From one queue to the next along the fetching index.
with recursive names as (
  (
    select j.queue as name, 1 as n from /* schema */river_job j
    where j.state = 'available' order by j.queue limit 1
  )
  union all
  select (
      select j.queue from /* schema */river_job j
      where j.state = 'available' and j.queue > p.name order by j.queue limit 1
    ), p.n + 1
  from names p
  where p.name is not null and p.n < :limit::bigint
)
select left(p.name, 200) as queue,
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'available' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  ) as waiting,
  (
    select min(x.scheduled_at)
    from generate_series(1, 4) as n (priority)
    cross join lateral (
      select j.scheduled_at from /* schema */river_job j
      where j.state = 'available' and j.queue = p.name and j.priority = n.priority
        and j.scheduled_at > '-infinity'::timestamptz and j.scheduled_at <= now()
      order by j.scheduled_at limit 1
    ) x
  ) as oldest_at
from names p
where p.name is not null
order by p.name;

-- name: job_completed_pace_get
select count(*) as jobs, max(x.finalized_at) as until
from (
  select j.finalized_at from /* schema */river_job j
  where j.state = 'completed' and j.finalized_at >= :since::timestamptz
  order by j.finalized_at
  limit :most::bigint
) x;

-- name: job_first_completed_at
select j.finalized_at as at
from /* schema */river_job j
where j.state = 'completed' and j.finalized_at >= :since::timestamptz
order by j.finalized_at
limit 1;

-- part: rollup_columns (rollup_list.columns)
r.bucket, r.queue, r.kind, r.sampled, r.completed, r.cancelled, r.discarded, r.failed, r.inserted, r.run_sum_us,
r.run_max_us, r.run_bins, r.failed_run_sum_us, r.failed_run_max_us, r.failed_run_bins, r.wait_sum_us, r.wait_max_us,
r.wait_bins, r.waiting, r.waiting_capped, r.oldest_waiting_us, r.snoozed, r.interrupted, r.cpu_us,
r.cpu_attempts;

-- name: rollup_lock
-- Held until the end of the transaction, so that it works behind a pooler too.
select pg_try_advisory_xact_lock(
  hashtext(concat(coalesce(:schema::text, current_schema()), '.riverui_rollup'))
) as locked;

-- name: rollup_newest_list
-- Ignores rows of the far future, which no dashboard has stored: one would be the newest for ever.
select s.step, r.bucket
from unnest(:steps::integer[]) as s (step)
cross join lateral (
  select r.bucket
  from /* schema */riverui_rollup r
  where r.step = s.step and r.queue = '' and r.kind = '' and r.source = ''
    and r.bucket < clock_timestamp() + interval '1 hour'
  order by r.bucket desc
  limit 1
) r;

-- name: rollup_weight_list
select r.bucket,
  r.completed + r.cancelled + r.discarded + r.failed + r.snoozed + r.interrupted + r.inserted as weight
from /* schema */riverui_rollup r
where r.step = :step::integer and r.queue = '' and r.kind = '' and r.source = ''
  and r.bucket = any(:buckets::timestamptz[]);

-- name: rollup_missing_list
select u.bucket
from (
  select distinct to_timestamp(floor(extract(epoch from r.bucket) / :step::integer) * :step::integer) as bucket
  from /* schema */riverui_rollup r
  where r.step = :part::integer and r.queue = '' and r.kind = '' and r.source = ''
    and r.bucket >= :since::timestamptz
) u
where not exists (
  select 1
  from /* schema */riverui_rollup w
  where w.step = :step::integer and w.bucket = u.bucket and w.queue = '' and w.kind = '' and w.source = ''
)
order by u.bucket;

-- name: rollup_list
select /* columns: */ r.bucket /* :columns */
from unnest(:steps::integer[], :since::timestamptz[], :until::timestamptz[])
  as s (step, since, until)
join /* schema */riverui_rollup r on r.step = s.step and r.bucket >= s.since and r.bucket < s.until
where r.source = '' /* terms */;

-- part: rollup_of_queue (rollup_list.terms)
and r.queue = :queue::text and r.kind = '';

-- part: rollup_of_pairs (rollup_list.terms)
and r.kind <> '' and (:queue::text = '' or r.queue = :queue::text) and (:kind::text = '' or r.kind = :kind::text);

-- name: rollup_delete
delete from /* schema */riverui_rollup r
where r.step = :step::integer and r.source = '' and r.bucket = any(:buckets::timestamptz[]);

-- name: rollup_insert
insert into /* schema */riverui_rollup (
  step, bucket, queue, kind, source, sampled, completed, cancelled, discarded, failed, snoozed, interrupted, inserted,
  run_sum_us, run_max_us, run_bins, failed_run_sum_us, failed_run_max_us, failed_run_bins, wait_sum_us, wait_max_us,
  wait_bins, waiting, waiting_capped, oldest_waiting_us, cpu_us, cpu_attempts
)
select n.*
from jsonb_to_recordset(:rows::text::jsonb) as n (
  step integer, bucket timestamptz, queue text, kind text, source text, sampled integer, completed bigint,
  cancelled bigint, discarded bigint, failed bigint, snoozed bigint, interrupted bigint, inserted bigint,
  run_sum_us bigint, run_max_us bigint, run_bins bytea, failed_run_sum_us bigint, failed_run_max_us bigint,
  failed_run_bins bytea, wait_sum_us bigint, wait_max_us bigint, wait_bins bytea, waiting integer,
  waiting_capped boolean, oldest_waiting_us bigint, cpu_us bigint, cpu_attempts bigint
) /* put */;

-- part: rollup_client_put (rollup_insert.put)
-- By the database's clock: dashboards have read older minutes already.
where n.bucket > clock_timestamp() - make_interval(secs => :late::float8)
on conflict on constraint riverui_rollup_pkey do update
set completed = excluded.completed, cancelled = excluded.cancelled, discarded = excluded.discarded,
  failed = excluded.failed, snoozed = excluded.snoozed, interrupted = excluded.interrupted,
  cpu_us = excluded.cpu_us, cpu_attempts = excluded.cpu_attempts,
  run_sum_us = excluded.run_sum_us, run_max_us = excluded.run_max_us, run_bins = excluded.run_bins,
  failed_run_sum_us = excluded.failed_run_sum_us, failed_run_max_us = excluded.failed_run_max_us,
  failed_run_bins = excluded.failed_run_bins,
  wait_sum_us = excluded.wait_sum_us, wait_max_us = excluded.wait_max_us, wait_bins = excluded.wait_bins;

-- name: rollup_client_list
select /* columns: */ r.bucket /* :columns */
from /* schema */riverui_rollup r
where r.source <> '' and r.bucket >= :since::timestamptz and r.bucket < :until::timestamptz
order by r.bucket desc
limit :limit::bigint;

-- name: rollup_client_count_list
select r.bucket, r.queue, r.kind, sum(r.failed)::bigint as failed, sum(r.snoozed)::bigint as snoozed,
  sum(r.interrupted)::bigint as interrupted, sum(r.cpu_us)::bigint as cpu_us,
  sum(r.cpu_attempts)::bigint as cpu_attempts
from /* schema */riverui_rollup r
where r.source <> '' and r.bucket >= :since::timestamptz
group by r.bucket, r.queue, r.kind
having sum(r.failed) + sum(r.snoozed) + sum(r.interrupted) + sum(r.cpu_attempts) > 0;

-- name: rollup_client_delete_old
delete from /* schema */riverui_rollup r
where r.ctid = any(array(
  select o.ctid
  from /* schema */riverui_rollup o
  where o.source <> '' and o.bucket < clock_timestamp() - make_interval(secs => :age::float8)
  limit :limit::bigint
))
returning r.step;

-- name: rollup_delete_before
delete from /* schema */riverui_rollup r
where r.ctid = any(array(
  select o.ctid
  from /* schema */riverui_rollup o
  where o.step = :step::integer and o.bucket < :before::timestamptz
  order by o.bucket
  limit :limit::bigint
))
returning r.step;

-- name: rollup_may_truncate
select has_table_privilege(to_regclass('/* schema */riverui_rollup'), 'truncate') as may;

-- name: rollup_truncate
truncate /* schema */riverui_rollup;

-- name: rollup_delete_some
delete from /* schema */riverui_rollup r
where r.ctid = any(array(select o.ctid from /* schema */riverui_rollup o limit :limit::bigint))
returning r.step;
