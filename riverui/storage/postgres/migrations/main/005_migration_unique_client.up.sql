-- Migrations are recorded by line and version. Whoever runs these files with a tool of their own, and left out
-- version 1, has no such table.
do $$
begin
  if to_regclass('/* schema */river_migration') is not null then
    alter table /* schema */river_migration rename to river_migration_old;

    create table /* schema */river_migration (
      line text not null,
      version bigint not null,
      created_at timestamptz not null default now(),
      constraint line_length check (char_length(line) > 0 and char_length(line) < 128),
      constraint version_gte_1 check (version >= 1),
      primary key (line, version)
    );

    insert into /* schema */river_migration (line, version, created_at)
    select 'main', version, created_at from /* schema */river_migration_old;

    drop table /* schema */river_migration_old;
  end if;
end;
$$;

-- Both may exist: on a big table one can build the index beforehand, concurrently.
alter table /* schema */river_job add column if not exists unique_key bytea;
create unique index if not exists river_job_kind_unique_key_idx
  on /* schema */river_job (kind, unique_key)
  where unique_key is not null;

-- Never used by any release; version 7 drops them.
create unlogged table /* schema */river_client (
  id text primary key not null,
  created_at timestamptz not null default now(),
  metadata jsonb not null default '{}',
  paused_at timestamptz,
  updated_at timestamptz not null,
  constraint name_length check (char_length(id) > 0 and char_length(id) < 128)
);

create unlogged table /* schema */river_client_queue (
  river_client_id text not null references /* schema */river_client (id) on delete cascade,
  name text not null,
  created_at timestamptz not null default now(),
  max_workers bigint not null default 0,
  metadata jsonb not null default '{}',
  num_jobs_completed bigint not null default 0,
  num_jobs_running bigint not null default 0,
  updated_at timestamptz not null,
  primary key (river_client_id, name),
  constraint name_length check (char_length(name) > 0 and char_length(name) < 128),
  constraint num_jobs_completed_zero_or_positive check (num_jobs_completed >= 0),
  constraint num_jobs_running_zero_or_positive check (num_jobs_running >= 0)
);
