-- Lets a database's clock stand at a time, and shifts the times of its sessions by `behind`, for whom looks in `public`
-- before `pg_catalog`; and moves riverui's tables to `ours`, so that only those see them who look there.
create schema ours;

do $$
declare
  name text;
begin
  for name in select c.relname from pg_class c where c.relname like 'riverui\_%' and c.relkind = 'r' loop
    execute format('alter table %I set schema ours', name);
  end loop;
end;
$$;

create function public.behind() returns interval language sql immutable as $$ select interval '0' $$;

create function public.now() returns timestamptz language sql stable as $$ select pg_catalog.now() $$;

create function public.clock_timestamp() returns timestamptz language sql volatile as $$ select public.now() $$;

create view public.pg_stat_activity as
select a.datid, a.datname, a.pid, a.usesysid, a.usename, a.application_name, a.client_addr, a.client_hostname,
  a.client_port, a.backend_start, a.xact_start + public.behind() as xact_start,
  a.query_start + public.behind() as query_start, a.state_change + public.behind() as state_change,
  a.wait_event_type, a.wait_event, a.state, a.backend_xid, a.backend_xmin, a.query, a.backend_type
from pg_catalog.pg_stat_activity a;
