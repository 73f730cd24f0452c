-- Actions of River's client on one job, for many at once. Rows are locked in the order of their ids, so that two of
-- these never deadlock. Each returns (id, outcome) for every requested id.
-- Slot: wait (job_skip_locked after a lock timeout, so that one row held elsewhere does not fail the rest).

-- name: job_cancel_many
-- River: JobCancel. A running job is only asked to stop; workers are notified of every job that is not finalized.
with asked as (
  select distinct a.id from unnest(:ids::bigint[]) as a (id)
),
locked as materialized (
  select j.id, j.queue, j.state, j.finalized_at
  from /* schema */river_job j
  where j.id = any(:ids::bigint[])
  order by j.id
  for update /* wait */
),
notified as materialized (
  select l.id,
    pg_notify(
      concat(coalesce(:schema::text, current_schema()), '.river_control'),
      json_build_object('action', 'cancel', 'job_id', l.id, 'queue', l.queue)::text
    )
  from locked l
  where l.state not in ('cancelled', 'completed', 'discarded') and l.finalized_at is null
),
changed as (
  update /* schema */river_job j
  set state = case when j.state = 'running' then j.state else 'cancelled' end,
    finalized_at = case when j.state = 'running' then j.finalized_at else now() end,
    metadata = case
      when jsonb_typeof(j.metadata) = 'object'
        then jsonb_set(j.metadata, '{cancel_attempted_at}', to_jsonb(:cancel_attempted_at::text), true)
      else j.metadata
    end
  from notified n
  where j.id = n.id
  returning j.id
)
select a.id,
  case
    when c.id is not null and l.state = 'running' then 'requested'
    when c.id is not null then 'changed'
    when l.id is not null then 'finalized'
    when exists (select from /* schema */river_job j where j.id = a.id) then 'locked'
    else 'not_found'
  end as outcome
from asked a
left join locked l on l.id = a.id
left join changed c on c.id = a.id
order by a.id;

-- name: job_retry_many
-- River: JobRetry.
with asked as (
  select distinct a.id from unnest(:ids::bigint[]) as a (id)
),
locked as materialized (
  select j.id, j.state, j.scheduled_at
  from /* schema */river_job j
  where j.id = any(:ids::bigint[])
  order by j.id
  for update /* wait */
),
changed as (
  update /* schema */river_job j
  set state = /* state: */ 'available' /* :state */,
    -- River adds one unconditionally; a smallint ends at 32767.
    max_attempts = case when j.attempt = j.max_attempts then least(j.max_attempts + 1, 32767) else j.max_attempts end,
    finalized_at = null,
    metadata = case
      when jsonb_typeof(j.metadata) = 'object' then j.metadata - 'cancel_attempted_at'
      else j.metadata
    end,
    scheduled_at = now()
  from locked l
  where j.id = l.id
    and j.state <> 'running'
    and not (j.state = 'available' and j.scheduled_at < now())
  returning j.id
)
select a.id,
  case
    when c.id is not null then 'changed'
    when l.state = 'running' then 'running'
    when l.id is not null then 'already_available'
    when exists (select from /* schema */river_job j where j.id = a.id) then 'locked'
    else 'not_found'
  end as outcome
from asked a
left join locked l on l.id = a.id
left join changed c on c.id = a.id
order by a.id;

-- name: job_move_many
-- River has no such call. The unique key stays, as the options that made it are not stored.
with asked as (
  select distinct a.id from unnest(:ids::bigint[]) as a (id)
),
locked as materialized (
  select j.id, j.state, j.queue <> coalesce(:queue::text, j.queue) as comes
  from /* schema */river_job j
  where j.id = any(:ids::bigint[])
  order by j.id
  for update /* wait */
),
changed as (
  update /* schema */river_job j
  set queue = coalesce(:queue::text, j.queue), priority = coalesce(:priority::smallint, j.priority)
  from locked l
  where j.id = l.id
    and l.state in ('available', 'pending', 'retryable', 'scheduled')
    and (l.comes or j.priority <> :priority::smallint)
  returning j.id, l.state = 'available' and l.comes as awaited
),
notified as materialized (
  select pg_notify(
    concat(coalesce(:schema::text, current_schema()), '.river_insert'),
    json_build_object('queue', :queue::text)::text
  )
  where exists (select from changed c where c.awaited)
)
select a.id,
  case
    when c.id is not null then 'changed'
    when l.state in ('available', 'pending', 'retryable', 'scheduled') then 'unchanged'
    when l.state = 'running' then 'running'
    when l.id is not null then 'finalized'
    when exists (select from /* schema */river_job j where j.id = a.id) then 'locked'
    else 'not_found'
  end as outcome
from asked a
left join locked l on l.id = a.id
left join changed c on c.id = a.id
cross join (select count(*) from notified) n
order by a.id;

-- name: job_delete_many
-- River: JobDelete.
with asked as (
  select distinct a.id from unnest(:ids::bigint[]) as a (id)
),
locked as materialized (
  select j.id, j.state
  from /* schema */river_job j
  where j.id = any(:ids::bigint[])
  order by j.id
  for update /* wait */
),
changed as (
  delete from /* schema */river_job j
  using locked l
  where j.id = l.id and j.state <> 'running'
  returning j.id
)
select a.id,
  case
    when c.id is not null then 'changed'
    when l.id is not null then 'running'
    when exists (select from /* schema */river_job j where j.id = a.id) then 'locked'
    else 'not_found'
  end as outcome
from asked a
left join locked l on l.id = a.id
left join changed c on c.id = a.id
order by a.id;

-- part: job_skip_locked (job_cancel_many.wait)
skip locked;

-- part: job_retry_pending (job_retry_many.state)
-- For jobs that something else makes available later.
'pending';

-- name: job_outcome_list
select j.id, j.state::text as state, coalesce(cardinality(j.errors), 0) as errors
from /* schema */river_job j
where j.id = any(:ids::bigint[]);
