create table river_migration (
    id integer primary key,
    created_at timestamp not null default current_timestamp,
    version integer not null,
    constraint version check (version >= 1)
);
create unique index river_migration_version_idx on river_migration (version);
