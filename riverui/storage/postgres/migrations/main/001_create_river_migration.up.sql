-- The record of applied migrations.
create table /* schema */river_migration (
  id bigserial primary key,
  created_at timestamptz not null default now(),
  version bigint not null,
  constraint version check (version >= 1)
);

create unique index on /* schema */river_migration using btree (version);
