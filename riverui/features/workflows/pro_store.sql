-- River Pro's tables, if they exist.

-- name: periodic_job_list
select p.id, p.created_at, p.next_run_at, p.updated_at
from /* schema */river_periodic_job p
where p.updated_at >= :updated_after::timestamptz
order by p.id
limit :limit::bigint;

-- name: producer_list
select p.id, p.client_id, p.created_at, p.max_workers, p.metadata::text as metadata, p.paused_at,
  p.queue_name, p.updated_at
from /* schema */river_producer p
where p.queue_name = :queue_name::text
order by p.id;

-- name: workflow_list
-- The tasks are found by River's GIN index on metadata; not every version has the same further columns.
with page as materialized (
  select w.id, w.name, to_jsonb(w) ->> 'created_at' as created_at
  from /* schema */river_workflow w
  where (:after::text = '' or w.id < :after::text) /* active */
  order by w.id desc
  limit :limit::bigint
)
select p.id, p.name, coalesce(p.created_at::timestamptz, c.created_at, now()) as created_at, c.failed_deps, c.available,
  c.cancelled, c.completed, c.discarded, c.pending, c.retryable, c.running, c.scheduled
from page p
cross join lateral (
  select min(j.created_at) as created_at,
    count(*) filter (where j.metadata ? 'workflow_deps_failed_at') as failed_deps,
    count(*) filter (where j.state = 'available') as available,
    count(*) filter (where j.state = 'cancelled') as cancelled,
    count(*) filter (where j.state = 'completed') as completed,
    count(*) filter (where j.state = 'discarded') as discarded,
    count(*) filter (where j.state = 'pending') as pending,
    count(*) filter (where j.state = 'retryable') as retryable,
    count(*) filter (where j.state = 'running') as running,
    count(*) filter (where j.state = 'scheduled') as scheduled
  from /* schema */river_job j
  where j.metadata @> jsonb_build_object('workflow_id', p.id)
) c
order by p.id desc;

-- name: workflow_id_order
-- In the order of the lists, in any collation.
select u.id from unnest(:ids::text[]) as u (id) order by u.id desc;

-- part: workflow_active (workflow_list.active)
and exists (
  select from /* schema */river_job j
  where j.metadata @> jsonb_build_object('workflow_id', w.id) and j.state not in ('cancelled', 'completed', 'discarded')
);

-- part: workflow_inactive (workflow_list.active)
and not exists (
  select from /* schema */river_job j
  where j.metadata @> jsonb_build_object('workflow_id', w.id) and j.state not in ('cancelled', 'completed', 'discarded')
);

-- name: workflow_get
select w.id, coalesce(w.name, '') as name, greatest(w.current_attempt, 1) as attempt
from /* schema */river_workflow w
where w.id = :id::text;

-- name: workflow_task_list
select /* columns: */ j.id /* :columns */, /* long_columns: */ j.metadata /* :long_columns */
from /* schema */river_job j
where j.metadata @> jsonb_build_object('workflow_id', :id::text)
order by j.id
limit :limit::bigint;

-- name: workflow_signal_list
select s.attempt, s.created_at, s.id, s.key, s.payload::text as payload, s.source::text as source
from /* schema */river_workflow_signal s
where s.workflow_id = :id::text and s.attempt = :attempt::bigint and s.key = any(:keys::text::text[])
  and (:cursor_id::bigint = 0 or /* beyond: */ s.id > :cursor_id::bigint /* :beyond */)
order by s.id /* desc */
limit :limit::bigint;

-- part: workflow_signal_before (workflow_signal_list.beyond)
s.id < :cursor_id::bigint;

-- name: workflow_retry
-- A task whose dependencies are not done waits in `pending`, as at first.
update /* schema */river_job j
set state = case when j.id = any(:waiting::bigint[]) then 'pending' else 'available' end::/* schema */river_job_state,
  attempt = case when :reset::boolean then 0 else j.attempt end,
  errors = case when :reset::boolean then null else j.errors end,
  finalized_at = null,
  max_attempts = case when :reset::boolean then j.max_attempts else least(j.max_attempts + 1, 32767) end,
  metadata = j.metadata - '{cancel_attempted_at,workflow_deps_failed_at}'::text[],
  scheduled_at = now()
where j.id = any(:ids::bigint[]) and j.state in ('cancelled', 'completed', 'discarded')
returning j.id;
