-- Jobs, the leader, and a trigger that announces new jobs.
create type /* schema */river_job_state as enum (
  'available', 'cancelled', 'completed', 'discarded', 'retryable', 'running', 'scheduled'
);

create table /* schema */river_job (
  id bigserial primary key,
  state /* schema */river_job_state not null default 'available',
  attempt smallint not null default 0,
  max_attempts smallint not null,
  attempted_at timestamptz,
  created_at timestamptz not null default now(),
  finalized_at timestamptz,
  scheduled_at timestamptz not null default now(),
  priority smallint not null default 1,
  args jsonb,
  attempted_by text[],
  errors jsonb[],
  kind text not null,
  metadata jsonb not null default '{}',
  queue text not null default 'default',
  tags varchar(255)[],
  constraint finalized_or_finalized_at_null check (
    (state in ('cancelled', 'completed', 'discarded') and finalized_at is not null) or finalized_at is null
  ),
  constraint max_attempts_is_positive check (max_attempts > 0),
  constraint priority_in_range check (priority >= 1 and priority <= 4),
  constraint queue_length check (char_length(queue) > 0 and char_length(queue) < 128),
  constraint kind_length check (char_length(kind) > 0 and char_length(kind) < 128)
);

create index river_job_kind on /* schema */river_job using btree (kind);
create index river_job_state_and_finalized_at_index on /* schema */river_job using btree (state, finalized_at)
  where finalized_at is not null;
create index river_job_prioritized_fetching_index
  on /* schema */river_job using btree (state, queue, priority, scheduled_at, id);
create index river_job_args_index on /* schema */river_job using gin (args);
create index river_job_metadata_index on /* schema */river_job using gin (metadata);

create or replace function /* schema */river_job_notify()
returns trigger
language plpgsql
as $$
declare
  payload json;
begin
  if new.state = 'available' then
    payload = json_build_object('queue', new.queue);
    perform pg_notify('river_insert', payload::text);
  end if;
  return null;
end;
$$;

create trigger river_notify
  after insert on /* schema */river_job
  for each row
  execute procedure /* schema */river_job_notify();

create unlogged table /* schema */river_leader (
  elected_at timestamptz not null,
  expires_at timestamptz not null,
  leader_id text not null,
  name text primary key,
  constraint name_length check (char_length(name) > 0 and char_length(name) < 128),
  constraint leader_id_length check (char_length(leader_id) > 0 and char_length(leader_id) < 128)
);
