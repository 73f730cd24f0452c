-- Actions on all matching jobs. Each time the holder of an operation changes, its fence grows by one; a dashboard with
-- an older fence changes no row.

-- part: operation_columns (operation_get.columns)
id, created_at as "created_at:time", ended_at as "ended_at:time", status, verb, parameters,
substr(features, 1, 1000) as features, substr(username, 1, 1000) as username, substr(allowed, 1, 1000) as allowed,
query, sort, cutoff_id, cutoff_at as "cutoff_at:time", total, total_kind, changed, requested, skipped,
cursor_at as "cursor_at:time", cursor_id, substr(stopped_by, 1, 1000) as stopped_by, error,
substr(holder, 1, 1000) as holder, fence, held_until >= :now as "held:bool", pace, watch;

-- name: operation_turn
-- Transactions that write have their turns already.
select 1 as locked;

-- name: operation_unfinished_count
select count(*) as number from riverui_operation where ended_at is null;

-- name: operation_insert
insert into riverui_operation (
  id, created_at, verb, parameters, features, username, allowed, query, sort, cutoff_id, cutoff_at, total, total_kind,
  pace, watch, holder, held_until, fence
)
values (
  :id, :now, :verb, :parameters, :features, :username, :allowed, :query, :sort, :cutoff_id, :cutoff_at, :total,
  :total_kind, :pace, :watch, :holder, riverui_after(:now, :term), 1
)
returning /* columns: */ id /* :columns */;

-- name: operation_get
select /* columns: */ id /* :columns */ from riverui_operation where id = :id;

-- name: operation_list
select /* columns: */ id /* :columns */
from riverui_operation
where verb in (select value from json_each(:verbs)) /* terms */
order by created_at desc, id desc
limit :limit;

-- part: operation_before (operation_list.terms)
and (riverui_operation.created_at, riverui_operation.id) < (
  select b.created_at, b.id from riverui_operation b where b.id = :before
);

-- name: operation_claim
-- A row whose fence cannot grow, written by another program, is skipped, so that it does not block the others.
update riverui_operation
set holder = :holder, fence = fence + 1, held_until = riverui_after(:now, :term)
where id = (
  select id
  from riverui_operation
  where ended_at is null and held_until < :now and verb in (select value from json_each(:verbs))
    and features = :features and fence < 9223372036854775807
  order by created_at, rowid
  limit 1
)
returning /* columns: */ id /* :columns */;

-- name: operation_hold
-- A dashboard that would take the operation over waits for the end of this transaction.
select /* columns: */ id /* :columns */
from riverui_operation
where id = :id and fence = :fence and ended_at is null;

-- name: operation_save
update riverui_operation
set changed = :changed, requested = :requested, skipped = :skipped, cursor_at = :cursor_at, cursor_id = :cursor_id,
  watch = :watch, held_until = riverui_after(:now, :term)
where id = :id and fence = :fence and ended_at is null
returning status;

-- name: operation_renew
update riverui_operation
set held_until = riverui_after(:now, :term)
where id = :id and fence = :fence and ended_at is null
returning status;

-- name: operation_release
update riverui_operation
set held_until = '-infinity'
where id = :id and fence = :fence and ended_at is null
returning id;

-- name: operation_stop
update riverui_operation
set status = 'stopping', stopped_by = :username
where id = :id and status = 'running'
returning id;

-- name: operation_end
update riverui_operation
set status = :status, error = substr(:error, 1, 1000), ended_at = :now
where id = :id and fence = :fence and ended_at is null
returning id;

-- name: operation_delete_before
delete from riverui_operation
where id in (select id from riverui_operation where ended_at < :before order by ended_at limit :limit)
returning id;
