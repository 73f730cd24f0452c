drop table river_job;
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
