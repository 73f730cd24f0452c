-- What the demo does to River's tables, in River's way. The rows come as one JSON array.

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

-- name: job_insert_notify
select pg_notify(current_schema() || '.river_insert', json_build_object('queue', queue)::text)
from unnest(:queues::text[]) as queue;

-- name: job_get_available
update river_job set
    state = 'running',
    attempt = attempt + 1,
    attempted_at = now(),
    attempted_by = array_append(attempted_by[greatest(cardinality(attempted_by) - 98, 1):], :client::text)
where id in (
    select id
    from river_job
    where state = 'available' and queue = :queue and scheduled_at <= now() and kind = any(:kinds::text[])
    order by priority, scheduled_at, id
    limit :free::integer
    for update skip locked
)
returning
    id, kind, args, metadata, attempt, max_attempts, coalesce(cardinality(errors), 0) as errors,
    attempted_at as started_at;

-- name: job_get_running
select
    id, kind, args, metadata, attempt, max_attempts, coalesce(cardinality(errors), 0) as errors,
    attempted_at as started_at
from river_job
where state = 'running' and attempted_at > :since::timestamptz and kind = any(:kinds::text[]);

-- name: job_get_cancelled
select id
from river_job
where state = 'running' and id = any(:ids::bigint[]) and metadata ? 'cancel_attempted_at';

-- name: job_log
update river_job set metadata = river_job.metadata || jsonb_build_object('river:log', new.log)
from jsonb_to_recordset(:logs::jsonb) as new (id bigint, log jsonb)
where river_job.id = new.id and river_job.state = 'running';

-- name: job_set_state_if_running
update river_job set
    state = new.state,
    attempt = new.attempt,
    errors = case
        when new.error is null then river_job.errors
        else array_append(river_job.errors, new.error)
    end,
    finalized_at = case when new.state in ('cancelled', 'completed', 'discarded') then now() end,
    metadata = river_job.metadata || new.metadata,
    scheduled_at = coalesce(new.scheduled_at, river_job.scheduled_at)
from (
    select
        given.id, given.attempt, given.error, given.metadata, given.scheduled_at,
        case
            when job.metadata ? 'cancel_attempted_at' and given.state in ('retryable', 'scheduled') then 'cancelled'
            else given.state
        end as state
    from jsonb_to_recordset(:outcomes::jsonb) as given (
        id bigint, state river_job_state, attempt smallint, error jsonb, metadata jsonb, scheduled_at timestamptz
    )
    join river_job job on job.id = given.id
) as new
where river_job.id = new.id and river_job.state = 'running';

-- name: job_give_back
update river_job set state = 'available', attempt = greatest(attempt - 1, 0), scheduled_at = now()
where state = 'running' and id = any(:ids::bigint[]);

-- name: job_schedule
update river_job set state = 'available'
where id in (
    select id
    from river_job
    where state in ('retryable', 'scheduled') and scheduled_at <= now() + interval '5 seconds'
    order by priority, scheduled_at, id
    limit 1000
    for update
)
returning queue;

-- name: job_release_pending
update river_job set state = 'available', scheduled_at = now()
where id in (
    select id
    from river_job
    where state = 'pending' and kind = any(:kinds::text[])
    order by id
    limit greatest((select count(*) from river_job where state = 'pending') - :kept::integer, 0)
    for update skip locked
)
returning queue;

-- name: job_rescue
update river_job set
    state = case
        when metadata ? 'cancel_attempted_at' then 'cancelled'::river_job_state
        when attempt < max_attempts then 'retryable'
        else 'discarded'
    end,
    finalized_at = case when metadata ? 'cancel_attempted_at' or attempt >= max_attempts then now() end,
    scheduled_at = case
        when metadata ? 'cancel_attempted_at' or attempt >= max_attempts then scheduled_at
        else now() + (coalesce(cardinality(errors), 0) + 1) ^ 4 * interval '1 second'
    end,
    errors = array_append(errors, jsonb_build_object(
        'at', now(), 'attempt', attempt, 'error', 'Stuck job rescued by JobRescuer', 'trace', ''
    )),
    metadata = metadata || jsonb_build_object(
        'river:rescue_count', coalesce((metadata ->> 'river:rescue_count')::integer, 0) + 1
    )
where id in (
    select id
    from river_job
    where
        state = 'running'
        and attempted_at < now() - interval '1 hour'
        and (metadata ? 'cancel_attempted_at' or kind = any(:kinds::text[]))
    limit 1000
    for update skip locked
);

-- name: job_clean
-- A demo may rest for days and then should still have something to show, so completed jobs go by number, not by age.
delete from river_job
where id in (
    select id
    from river_job
    where
        (state in ('cancelled', 'discarded') and finalized_at < now() - interval '7 days')
        or (
            state = 'completed'
            and finalized_at < (
                select finalized_at
                from river_job
                where state = 'completed' and finalized_at is not null
                order by finalized_at desc
                offset :kept::integer
                limit 1
            )
        )
    limit 5000
);

-- name: leader_attempt_elect
insert into river_leader (leader_id, elected_at, expires_at)
values (:client, now(), now() + interval '15 seconds')
on conflict (name) do update set
    leader_id = excluded.leader_id,
    elected_at = case
        when river_leader.leader_id = excluded.leader_id then river_leader.elected_at
        else excluded.elected_at
    end,
    expires_at = excluded.expires_at;

-- name: leader_resign
with resigned as (delete from river_leader where leader_id = :client::text returning leader_id)
select pg_notify(
    current_schema() || '.river_leadership', json_build_object('leader_id', leader_id, 'action', 'resigned')::text
)
from resigned;

-- name: queue_create
insert into river_queue (name, created_at, updated_at, paused_at)
select name, created_at, updated_at, paused_at
from jsonb_to_recordset(:queues::jsonb) as new (
    name text, created_at timestamptz, updated_at timestamptz, paused_at timestamptz
)
on conflict (name) do nothing;

-- name: queue_keep_alive
update river_queue set updated_at = now() where name = any(:names::text[]);

-- name: queue_get_any
select name from river_queue limit 1;

-- name: queue_get_paused
select name from river_queue where paused_at is not null;

-- name: sequence_start
select setval('river_job_id_seq', :id);
