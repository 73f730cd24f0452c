drop index river_job_kind;
drop index river_job_state_and_finalized_at_index;
drop index river_job_prioritized_fetching_index;
drop index river_job_unique_idx;
alter table river_job rename to river_job_old;
create table river_job (
    id integer primary key,
    args blob not null default '{}',
    attempt integer not null default 0,
    attempted_at timestamp,
    attempted_by blob,
    created_at timestamp not null default current_timestamp,
    errors blob,
    finalized_at timestamp,
    kind text not null,
    max_attempts integer not null,
    metadata blob not null default (json('{}')),
    priority integer not null default 1,
    queue text not null default 'default',
    state text not null default 'available',
    scheduled_at timestamp not null default current_timestamp,
    tags blob not null default (json('[]')),
    unique_key blob,
    unique_states integer,
    constraint finalized_or_finalized_at_null check (
        (finalized_at is null and state not in ('cancelled', 'completed', 'discarded')) or
        (finalized_at is not null and state in ('cancelled', 'completed', 'discarded'))
    ),
    constraint priority_in_range check (priority >= 1 and priority <= 4),
    constraint queue_length check (length(queue) > 0 and length(queue) < 128),
    constraint kind_length check (length(kind) > 0 and length(kind) < 128),
    constraint state_valid check (state in (
        'available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled'
    ))
);
insert into river_job (
    id, args, attempt, attempted_at, attempted_by, created_at, errors, finalized_at,
    kind, max_attempts, metadata, priority, queue, state, scheduled_at, tags, unique_key, unique_states
)
select
    id, json(args), attempt, attempted_at, json(attempted_by), created_at, json(errors), finalized_at,
    kind, max_attempts, json(metadata), priority, queue, state, scheduled_at, json(tags), unique_key, unique_states
from river_job_old;
drop table river_job_old;
create index river_job_kind on river_job (kind);
create index river_job_state_and_finalized_at_index on river_job (state, finalized_at)
    where finalized_at is not null;
create index river_job_prioritized_fetching_index
    on river_job (state, queue, priority, scheduled_at, id);
create unique index river_job_unique_idx on river_job (unique_key)
    where unique_key is not null
        and unique_states is not null
        and case state
            when 'available' then unique_states & (1 << 0)
            when 'cancelled' then unique_states & (1 << 1)
            when 'completed' then unique_states & (1 << 2)
            when 'discarded' then unique_states & (1 << 3)
            when 'pending' then unique_states & (1 << 4)
            when 'retryable' then unique_states & (1 << 5)
            when 'running' then unique_states & (1 << 6)
            when 'scheduled' then unique_states & (1 << 7)
            else 0
        end >= 1;
alter table river_queue rename to river_queue_old;
create table river_queue (
    name text primary key not null,
    created_at timestamp not null default current_timestamp,
    metadata blob not null default (json('{}')),
    paused_at timestamp,
    updated_at timestamp not null
);
insert into river_queue (name, created_at, metadata, paused_at, updated_at)
select name, created_at, json(metadata), paused_at, updated_at from river_queue_old;
drop table river_queue_old;
create table river_client (
    id text primary key not null,
    created_at timestamp not null default current_timestamp,
    metadata blob not null default (json('{}')),
    paused_at timestamp,
    updated_at timestamp not null,
    constraint name_length check (length(id) > 0 and length(id) < 128)
);
create table river_client_queue (
    river_client_id text not null references river_client (id) on delete cascade,
    name text not null,
    created_at timestamp not null default current_timestamp,
    max_workers integer not null default 0,
    metadata blob not null default (json('{}')),
    num_jobs_completed integer not null default 0,
    num_jobs_running integer not null default 0,
    updated_at timestamp not null,
    primary key (river_client_id, name),
    constraint name_length check (length(name) > 0 and length(name) < 128),
    constraint num_jobs_completed_zero_or_positive check (num_jobs_completed >= 0),
    constraint num_jobs_running_zero_or_positive check (num_jobs_running >= 0)
);
drop table river_notification;
