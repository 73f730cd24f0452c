-- args and metadata are never null, of which only metadata has a default.
update /* schema */river_job set args = '{}' where args is null;
alter table /* schema */river_job alter column args set not null;

alter table /* schema */river_job alter column metadata set default '{}';
update /* schema */river_job set metadata = '{}' where metadata is null;
alter table /* schema */river_job alter column metadata set not null;

-- A down migration leaves the value in place, so it may be there already.
alter type /* schema */river_job_state add value if not exists 'pending' after 'discarded';

alter table /* schema */river_job drop constraint finalized_or_finalized_at_null;
alter table /* schema */river_job add constraint finalized_or_finalized_at_null check (
  (finalized_at is null and state not in ('cancelled', 'completed', 'discarded'))
  or (finalized_at is not null and state in ('cancelled', 'completed', 'discarded'))
);

-- Clients announce their inserts themselves from here on.
drop trigger river_notify on /* schema */river_job;
drop function /* schema */river_job_notify;

create table /* schema */river_queue (
  name text primary key not null,
  created_at timestamptz not null default now(),
  metadata jsonb not null default '{}'::jsonb,
  paused_at timestamptz,
  updated_at timestamptz not null
);

-- One leader at most.
alter table /* schema */river_leader
  alter column name set default 'default',
  drop constraint name_length,
  add constraint name_length check (name = 'default');
