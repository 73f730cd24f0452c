-- River Pro's triggers and indexes would be lost with the old table.
create temp table river_pro (name text constraint river_pro_is_installed check (false));
insert into river_pro select name from sqlite_master
where name in ('river_job_sequence', 'river_job_workflow_scheduling', 'river_workflow');
drop table river_pro;
drop index river_job_kind;
drop index river_job_state_and_finalized_at_index;
drop index river_job_prioritized_fetching_index;
drop index river_job_unique_idx;
alter table river_job rename to river_job_old;
create table river_job (
    id integer primary key,
    args blob not null default (jsonb('{}')),
    attempt integer not null default 0,
    attempted_at timestamp,
    attempted_by blob,
    created_at timestamp not null default current_timestamp,
    errors blob,
    finalized_at timestamp,
    kind text not null,
    max_attempts integer not null default 25,
    metadata blob not null default (jsonb('{}')),
    priority integer not null default 1,
    queue text not null default 'default',
    state text not null default 'available',
    scheduled_at timestamp not null default current_timestamp,
    tags blob not null default (jsonb('[]')),
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
    id, args, attempt, attempted_at, attempted_by, created_at, errors, finalized_at,
    kind, max_attempts, metadata, priority, queue, state, scheduled_at, tags, unique_key, unique_states
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
