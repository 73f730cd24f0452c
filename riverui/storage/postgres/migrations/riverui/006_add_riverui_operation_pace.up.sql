-- The pace of an operation, when it stops by itself, and the outcomes of the jobs that it retried.
alter table /* schema */riverui_operation
  add column pace jsonb not null default '{}',
  add column watch jsonb,
  add constraint riverui_operation_pace_objects check (
    jsonb_typeof(pace) = 'object' and (watch is null or jsonb_typeof(watch) = 'object')
    and octet_length(pace::text) <= 65536 and octet_length(watch::text) <= 65536
  );
