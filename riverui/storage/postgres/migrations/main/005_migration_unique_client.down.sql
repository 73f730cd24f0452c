-- Without the column `line`, the record of any other line would be lost.
do $$
begin
  if to_regclass('/* schema */river_migration') is not null then
    if exists (select from /* schema */river_migration where line <> 'main') then
      raise exception 'Other migration lines than main are applied; take them down before version 5 of main.';
    end if;

    alter table /* schema */river_migration rename to river_migration_old;

    create table /* schema */river_migration (
      id bigserial primary key,
      created_at timestamptz not null default now(),
      version bigint not null,
      constraint version check (version >= 1)
    );

    create unique index on /* schema */river_migration using btree (version);

    insert into /* schema */river_migration (created_at, version)
    select created_at, version from /* schema */river_migration_old;

    drop table /* schema */river_migration_old;
  end if;
end;
$$;

alter table /* schema */river_job drop column unique_key;

drop table /* schema */river_client_queue;
drop table /* schema */river_client;
