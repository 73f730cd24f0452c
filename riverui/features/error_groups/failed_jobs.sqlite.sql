-- Failed jobs by their errors.

-- name: failed_job_list
-- As on Postgres: the discarded jobs that ended last, and an equal share of the retryable ones of each queue and
-- priority.
with recursive pair (queue, priority, n) as (
  select * from (
    select queue, priority, 1 from river_job where state = 'retryable' order by queue, priority limit 1
  )
  union all
  select j.queue, j.priority, p.n + 1
  from pair p
  cross join river_job j on j.id = (
    select id from river_job
    where state = 'retryable' and (queue, priority) > (p.queue, p.priority)
    order by queue, priority limit 1
  )
  where p.n < 1000
),
share (size) as materialized (
  select max(:limit / max(count(*), 1), 10) from pair
),
-- The last job of each share; none if there are fewer.
bound (queue, priority, last_id) as materialized (
  select p.queue, p.priority, (
    select id from river_job
    where state = 'retryable' and queue = p.queue and priority = p.priority
    order by scheduled_at, id limit 1 offset (select size - 1 from share)
  )
  from pair p
),
found (id, attempt, at, ends) as materialized (
  select * from (
    select id, attempt, coalesce(attempted_at, finalized_at), row_number() over (order by finalized_at desc) = :limit
    from river_job
    where state = 'discarded' and finalized_at is not null
    order by finalized_at desc limit :limit
  )
  union all
  select j.id, j.attempt, coalesce(j.attempted_at, j.scheduled_at), j.id is b.last_id
  from bound b
  left join river_job e on e.id = b.last_id
  cross join river_job j on j.state = 'retryable' and j.queue = b.queue and j.priority = b.priority
    and (j.scheduled_at, j.id) <= (coalesce(e.scheduled_at, 'infinity'), coalesce(e.id, 0))
)
select f.id, f.attempt, (select count(*) > :limit or max(ends) from found) as "more:bool"
from found f
order by f.at desc, f.id desc
limit :limit;

-- name: job_error_list
-- A row that is too large is skipped.
select s.id, s.state, s.attempt, s.kind, s.queue, coalesce(substr(s.attempted_by ->> '$[#-1]', 1, 100), '') as worker,
  coalesce(substr(s.metadata ->> '$."riverui:release"', 1, 100), '') as release,
  iif(
    json_type(s.metadata, '$."riverui:fingerprint"') = 'text',
    substr(s.metadata ->> '$."riverui:fingerprint"', 1, 101), ''
  ) as given,
  substr(s.error ->> 'at', 1, 64) as error_at, s.at as "at:time",
  coalesce(substr(iif(json_type(s.error) = 'object', s.error ->> 'error', s.error), 1, :error_length), '') as error,
  coalesce(
    iif(
      length(s.error ->> 'trace') > :trace_length,
      substr(s.error ->> 'trace', 1, :trace_length / 2) || char(10) || '...' || char(10)
        || substr(s.error ->> 'trace', -(:trace_length / 2)),
      cast(s.error ->> 'trace' as text)
    ),
    ''
  ) as trace
from (
  select j.id, j.state, j.attempt, j.kind, j.queue,
    coalesce(j.attempted_at, j.finalized_at, j.scheduled_at) as at,
    iif(json_valid(json_text(j.attempted_by)), json_text(j.attempted_by), null) as attempted_by,
    iif(length(j.errors) <= 131072 and json_valid(json_text(j.errors)), json_text(j.errors) -> '$[#-1]', null) as error,
    iif(length(j.metadata) <= 131072 and json_valid(json_text(j.metadata)), json_text(j.metadata), null) as metadata
  from json_each(:ids) i
  cross join river_job j on j.id = i.value
  where /* states: */ j.state in ('retryable', 'discarded') /* :states */
) s;

-- part: completed_jobs (job_error_list.states)
j.state = 'completed';

-- name: recovered_job_list
-- Of the jobs that completed last before a time, those that had failed.
select j.id
from (
  select id, errors from river_job
  where state = 'completed' and finalized_at < :before
  order by finalized_at desc
  limit :looked_at
) j
where j.errors is not null and iif(json_valid(json_text(j.errors)), json_array_length(json_text(j.errors)), 0) > 0
limit :limit;
