-- name: ping
select 1 as answer;

-- name: transaction_id
select txid_current() as id;

-- name: transaction_status
select txid_status(:id::bigint) as status;

-- name: schema_current
select coalesce(current_schema(), '') as name;

-- name: server_get
select current_setting('server_version') as version, current_database() as database, current_user as "user",
  coalesce(:schema::text, current_schema(), '') as schema;

-- name: replication_get
-- A standby can receive changes that its primary has flushed, and shows those it has replayed. Both have the same
-- system identifier.
select pg_is_in_recovery() as standby,
  (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_flush_lsn() end
    - '0/0'::pg_lsn)::bigint as position,
  case when has_function_privilege('pg_catalog.pg_control_system()', 'execute')
    then (select concat(c.system_identifier, '/', d.oid) from pg_control_system() c, pg_database d
      where d.datname = current_database()) else '' end as system,
  clock_timestamp() - pg_last_xact_replay_timestamp() as behind;

-- name: dashboard_list
select distinct a.application_name as name
from pg_stat_activity a
where a.datname = current_database() and a.application_name like :prefix::text || '%'
order by name
limit 100;

-- name: server_settings
-- `reset_val` is the value at the start of a session; the current values are those of riverui's transactions.
select name,
  case
    when unit = '8kB' then pg_size_pretty(reset_val::bigint * 8192)
    when unit = 'kB' then pg_size_pretty(reset_val::bigint * 1024)
    when unit is null or reset_val in ('0', '-1') then reset_val
    else concat(reset_val, ' ', unit)
  end as value
from pg_settings
where name = any(:names::text[])
order by array_position(:names::text[], name);
