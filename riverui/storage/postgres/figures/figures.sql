-- Figures out of the rows of jobs.

-- name: figure_clock_get
select clock_timestamp() as now, coalesce((select max(j.id) from /* schema */river_job j), 0) as last_id;

-- name: job_ended_tally_list
-- One range of River's partial index on (state, finalized_at) for each slice and state. The look at `attempt` is always
-- true: it keeps the planner from expecting more rows than it would group by hashing. Each span is told as one byte,
-- its bin counted from the first: grouped by bins, there would be nearly a group a job. Times that are infinite, or
-- lack, have no span.
with ended as materialized (
  select r.place, s.state, j.queue, j.kind, count(*) as jobs,
    sum(j.run_us) as run_sum, max(j.run_us) as run_max,
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
  from unnest(:places::text::bigint[], :since::text::timestamptz[], :until::text::timestamptz[])
    as r (place, since, until)
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
  group by r.place, s.state, j.queue, j.kind
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
select e.place, e.state::text as state, left(coalesce(q.queue, :other::text), 200) as queue,
  left(coalesce(p.kind, :other::text), 200) as kind, sum(e.jobs)::bigint as jobs,
  least(coalesce(sum(e.run_sum), 0), 9e18)::bigint as run_sum,
  least(coalesce(max(e.run_max), 0), 9e18)::bigint as run_max,
  string_agg(e.run_bins, ''::bytea) as run_bins,
  least(coalesce(sum(e.wait_sum), 0), 9e18)::bigint as wait_sum,
  least(coalesce(max(e.wait_max), 0), 9e18)::bigint as wait_max,
  string_agg(e.wait_bins, ''::bytea) as wait_bins
from ended e
left join pairs p on p.queue = e.queue and p.kind = e.kind
left join queues q on q.queue = e.queue
group by 1, 2, 3, 4;

-- name: job_ended_failure_list
-- Those of the same ranges that were tried more than once, or given up. The last attempt of a discarded job is known
-- without its errors, which may be long.
with ended as materialized (
  select s.state, j.id, j.attempt, j.attempted_at, j.queue, j.kind,
    case when j.attempt > 1 then j.errors end as errors
  from unnest(:since::text::timestamptz[], :until::text::timestamptz[]) as r (since, until)
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
select w.id, w.attempt::text as attempt, w.attempted_at as at, null as told_at, left(w.queue, 200) as queue,
  left(w.kind, 200) as kind
from ended w
where w.state = 'discarded' and isfinite(w.attempted_at)
union all
select w.id, left(e.error ->> 'attempt', 9) as attempt, null as at, left(e.error ->> 'at', 40) as told_at,
  left(w.queue, 200) as queue, left(w.kind, 200) as kind
from ended w
cross join lateral (
  select u.error from unnest(w.errors) with ordinality as u (error, n) order by u.n desc limit 10
) e;

-- name: job_unfinished_failure_list
-- In the order of the fetching index. A retryable job's last attempt is known without its errors, which are read only
-- where there may be more that are new.
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
select w.id, w.attempt::text as attempt, w.attempted_at as at, null as told_at, left(w.queue, 200) as queue,
  left(w.kind, 200) as kind
from failed w
where w.state = 'retryable'
union all
select w.id, left(e.error ->> 'attempt', 9) as attempt, null as at, left(e.error ->> 'at', 40) as told_at,
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

-- name: job_first_completed_at
select j.finalized_at as at
from /* schema */river_job j
where j.state = 'completed' and j.finalized_at >= :since::timestamptz
order by j.finalized_at
limit 1;
