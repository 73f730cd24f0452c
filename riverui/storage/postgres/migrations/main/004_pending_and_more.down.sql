alter table /* schema */river_job alter column args drop not null;

alter table /* schema */river_job alter column metadata drop not null;
alter table /* schema */river_job alter column metadata drop default;

-- Postgres cannot take a value out of an enum: `pending` stays.
alter table /* schema */river_job drop constraint finalized_or_finalized_at_null;
alter table /* schema */river_job add constraint finalized_or_finalized_at_null check (
  (state in ('cancelled', 'completed', 'discarded') and finalized_at is not null) or finalized_at is null
);

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

drop table /* schema */river_queue;

alter table /* schema */river_leader
  alter column name drop default,
  drop constraint name_length,
  add constraint name_length check (char_length(name) > 0 and char_length(name) < 128);
