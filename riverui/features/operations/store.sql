-- Actions on all matching jobs. Each time the holder of an operation changes, its fence grows by one; a dashboard with
-- an older fence changes no row.

-- part: operation_columns (operation_get.columns)
o.id, o.created_at, o.ended_at, o.status, o.verb, o.parameters::text as parameters,
left(o.features, 1000) as features, left(o.username, 1000) as username, left(o.allowed, 1000) as allowed, o.query,
o.sort, o.cutoff_id, o.cutoff_at, o.total, o.total_kind, o.changed, o.requested, o.skipped::text as skipped,
o.cursor_at, o.cursor_id, left(o.stopped_by, 1000) as stopped_by, o.error, left(o.holder, 1000) as holder, o.fence,
o.held_until >= clock_timestamp() as held, o.pace::text as pace, o.watch::text as watch;

-- name: operation_turn
-- One transaction at a time counts the operations that have not ended, and adds its own.
select pg_advisory_xact_lock(
  hashtext(concat(coalesce(:schema::text, current_schema()), '.riverui_operation'))
) as locked;

-- name: operation_unfinished_count
select count(*) as number from /* schema */riverui_operation o where o.ended_at is null;

-- name: operation_insert
insert into /* schema */riverui_operation as o (
  id, verb, parameters, features, username, allowed, query, sort, cutoff_id, cutoff_at, total, total_kind, pace, watch,
  holder, held_until, fence
)
values (
  :id::text, :verb::text, :parameters::text::jsonb, :features::text, :username::text, :allowed::text, :query::text,
  :sort::text, :cutoff_id::bigint, :cutoff_at::timestamptz, :total::bigint, :total_kind::text, :pace::text::jsonb,
  :watch::text::jsonb, :holder::text, clock_timestamp() + make_interval(secs => :term::float8), 1
)
returning /* columns: */ o.id /* :columns */;

-- name: operation_get
select /* columns: */ o.id /* :columns */ from /* schema */riverui_operation o where o.id = :id::text;

-- name: operation_list
select /* columns: */ o.id /* :columns */
from /* schema */riverui_operation o
where o.verb = any(:verbs::text[]) /* terms */
order by o.created_at desc, o.id desc
limit :limit::bigint;

-- part: operation_before (operation_list.terms)
and (o.created_at, o.id) < (
  select b.created_at, b.id from /* schema */riverui_operation b where b.id = :before::text
);

-- name: operation_claim
-- A row whose fence cannot grow, written by another program, is skipped, so that it does not block the others.
update /* schema */riverui_operation o
set holder = :holder::text, fence = o.fence + 1,
  held_until = clock_timestamp() + make_interval(secs => :term::float8)
where o.id = (
  select c.id
  from /* schema */riverui_operation c
  where c.ended_at is null and c.held_until < clock_timestamp() and c.verb = any(:verbs::text[])
    and c.features = :features::text and c.fence < 9223372036854775807
  order by c.created_at
  limit 1
  for update skip locked
)
returning /* columns: */ o.id /* :columns */;

-- name: operation_hold
-- A dashboard that would take the operation over waits for the end of this transaction, which the server ends after 5
-- idle seconds.
select /* columns: */ o.id /* :columns */,
  set_config('idle_in_transaction_session_timeout', '5s', true) as idle
from /* schema */riverui_operation o
where o.id = :id::text and o.fence = :fence::bigint and o.ended_at is null
for update;

-- name: operation_save
update /* schema */riverui_operation o
set changed = :changed::bigint, requested = :requested::bigint, skipped = :skipped::text::jsonb,
  cursor_at = :cursor_at::timestamptz, cursor_id = :cursor_id::bigint, watch = :watch::text::jsonb,
  held_until = clock_timestamp() + make_interval(secs => :term::float8)
where o.id = :id::text and o.fence = :fence::bigint and o.ended_at is null
returning o.status;

-- name: operation_renew
update /* schema */riverui_operation o
set held_until = clock_timestamp() + make_interval(secs => :term::float8)
where o.id = :id::text and o.fence = :fence::bigint and o.ended_at is null
returning o.status;

-- name: operation_release
update /* schema */riverui_operation o
set held_until = to_timestamp(0)
where o.id = :id::text and o.fence = :fence::bigint and o.ended_at is null
returning o.id;

-- name: operation_stop
update /* schema */riverui_operation o
set status = 'stopping', stopped_by = :username::text
where o.id = :id::text and o.status = 'running'
returning o.id;

-- name: operation_end
update /* schema */riverui_operation o
set status = :status::text, error = left(:error::text, 1000), ended_at = clock_timestamp()
where o.id = :id::text and o.fence = :fence::bigint and o.ended_at is null
returning o.id;

-- name: operation_delete_before
delete from /* schema */riverui_operation o
where o.id = any(array(
  select c.id
  from /* schema */riverui_operation c
  where c.ended_at < :before::timestamptz
  order by c.ended_at
  limit :limit::bigint
  for update skip locked
))
returning o.id;
