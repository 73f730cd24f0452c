-- Failed jobs by their errors.

-- name: failed_job_list
-- Discarded jobs by the time of their end. Retryable ones have no index by time: an equal share of each queue and
-- priority is read, of the jobs that are due next, as these have failed most recently.
with recursive pair as (
  (
    select j.queue, j.priority, 1 as n from /* schema */river_job j
    where j.state = 'retryable'
    order by j.queue, j.priority limit 1
  )
  union all
  select x.queue, x.priority, p.n + 1
  from pair p
  cross join lateral (
    select j.queue, j.priority from /* schema */river_job j
    where j.state = 'retryable' and (j.queue, j.priority) > (p.queue, p.priority)
    order by j.queue, j.priority limit 1
  ) x
  where p.n < 1000
),
share as materialized (
  select greatest(:limit::bigint / greatest(count(*), 1), 10) as size from pair
),
found as materialized (
  (
    select j.id, j.attempt, coalesce(j.attempted_at, j.finalized_at) as at,
      row_number() over () = :limit::bigint as ends
    from /* schema */river_job j
    where j.state = 'discarded' and j.finalized_at is not null
    order by j.finalized_at desc limit :limit::bigint
  )
  union all
  select x.id, x.attempt, x.at, x.n = x.size as ends
  from pair p
  cross join lateral (
    select w.id, w.attempt, w.at, row_number() over () as n, s.size
    from share s
    cross join lateral (
      select j.id, j.attempt, coalesce(j.attempted_at, j.scheduled_at) as at from /* schema */river_job j
      where j.state = 'retryable' and j.queue = p.queue and j.priority = p.priority
      order by j.scheduled_at, j.id limit s.size
    ) w
  ) x
)
select f.id, f.attempt, (select count(*) > :limit::bigint or bool_or(a.ends) from found a) as more
from found f
order by f.at desc, f.id desc
limit :limit::bigint;

-- name: job_error_list
-- A row that is too large is skipped: reading its last error would unpack all of it.
select j.id, j.state::text as state, j.attempt, j.kind, j.queue,
  coalesce(left(j.attempted_by[array_upper(j.attempted_by, 1)], 100), '') as worker,
  coalesce(left(case when m.small then j.metadata ->> 'riverui:release' end, 100), '') as release,
  coalesce(
    left(
      case when m.small and jsonb_typeof(j.metadata -> 'riverui:fingerprint') = 'string'
        then j.metadata ->> 'riverui:fingerprint'
      end,
      101
    ),
    ''
  ) as given,
  left(e.error ->> 'at', 64) as error_at,
  coalesce(j.attempted_at, j.finalized_at, j.scheduled_at) as at,
  coalesce(
    left(e.error ->> 'error', :error_length::int),
    case when jsonb_typeof(e.error) <> 'object' then left(e.error::text, :error_length::int) end,
    ''
  ) as error,
  coalesce(
    case
      when char_length(e.error ->> 'trace') > :trace_length::int
        then left(e.error ->> 'trace', :trace_length::int / 2) || E'\n...\n'
          || right(e.error ->> 'trace', :trace_length::int / 2)
      else e.error ->> 'trace'
    end,
    ''
  ) as trace
from unnest(:ids::bigint[]) as i (id)
join /* schema */river_job j on j.id = i.id
cross join lateral (
  select case when pg_column_size(j.errors) <= 131072 then j.errors[array_upper(j.errors, 1)] end as error
) e
cross join lateral (select pg_column_size(j.metadata) <= 131072 as small) m
where /* states: */ j.state in ('retryable', 'discarded') /* :states */;

-- part: completed_jobs (job_error_list.states)
j.state = 'completed';

-- name: recovered_job_list
-- Of the jobs that completed last before a time, those that had failed.
select j.id
from (
  select j.id, j.errors
  from /* schema */river_job j
  where j.state = 'completed' and j.finalized_at < :before::timestamptz
  order by j.finalized_at desc
  limit :looked_at::bigint
) j
where array_upper(j.errors, 1) > 0
limit :limit::bigint;
