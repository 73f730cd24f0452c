drop table river_client_queue;
drop table river_client;
alter table river_migration rename to river_migration_old;
create table river_migration (
    id integer primary key,
    created_at timestamp not null default current_timestamp,
    version integer not null,
    constraint version check (version >= 1)
);
create unique index river_migration_version_idx on river_migration (version);
insert into river_migration (version, created_at)
select version, created_at from river_migration_old where line = 'main';
drop table river_migration_old;
