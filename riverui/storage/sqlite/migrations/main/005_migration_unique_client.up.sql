drop index river_migration_version_idx;
alter table river_migration rename to river_migration_old;
create table river_migration (
    line text not null,
    version integer not null,
    created_at timestamp not null default current_timestamp,
    constraint line_length check (length(line) > 0 and length(line) < 128),
    constraint version_gte_1 check (version >= 1),
    primary key (line, version)
);
insert into river_migration (line, version, created_at)
select 'main', version, created_at from river_migration_old;
drop table river_migration_old;
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
