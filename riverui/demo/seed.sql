-- The shop's past, put into River's tables as it is. The rows come as one JSON array.

-- name: job_insert
insert into river_job (
    state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority,
    args, attempted_by, errors, kind, metadata, queue, tags, unique_key, unique_states
)
select
    state, coalesce(attempt, 0), max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority,
    args, attempted_by, errors, kind, metadata, queue, tags, unique_key, unique_states
from jsonb_to_recordset(:jobs::jsonb) as new (
    state river_job_state, attempt smallint, max_attempts smallint, attempted_at timestamptz,
    created_at timestamptz, finalized_at timestamptz, scheduled_at timestamptz, priority smallint,
    args jsonb, attempted_by text[], errors jsonb[], kind text, metadata jsonb, queue text,
    tags varchar(255)[], unique_key bytea, unique_states bit(8)
)
on conflict (unique_key)
where unique_key is not null and unique_states is not null and river_job_state_in_bitmask(unique_states, state)
do nothing;

-- name: queue_create
insert into river_queue (name, created_at, updated_at, paused_at)
select name, created_at, updated_at, paused_at
from jsonb_to_recordset(:queues::jsonb) as new (
    name text, created_at timestamptz, updated_at timestamptz, paused_at timestamptz
)
on conflict (name) do nothing;

-- name: sequence_start
select setval('river_job_id_seq', :id);

-- name: job_get_newest
select max(created_at) as created_at from river_job;

-- name: mark_insert
insert into riverui_mark (at, label) values (date_trunc('minute', :at::timestamptz, 'UTC'), :label::text)
on conflict do nothing;
