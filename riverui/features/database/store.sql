-- What the checks of the database read: catalogs and statistics, never the rows of a table. Names of programs are cut.

-- name: database_server
-- Sequences that the role may not use let no row be inserted.
with sessions as materialized (
  select a.usesysid, a.datid, coalesce(nullif(left(a.application_name, 200), ''), a.usename, '') as client
  from pg_stat_activity a
  where coalesce(a.backend_type, 'client backend') = 'client backend' and a.usesysid is not null
),
here as (
  select coalesce(:schema::text, current_schema()) as name
)
select clock_timestamp() as at, pg_backend_pid() as pid, quote_ident(current_user) as role,
  quote_ident(d.datname) as database, coalesce(quote_ident(h.name), '') as schema,
  has_schema_privilege(n.oid, 'usage') as usage,
  array(
    select format('%I.%I', n.nspname, s.relname) from pg_class s
    where s.relnamespace = n.oid and s.relname ~ '^river(ui)?_'
      and case when s.relkind = 'S' then not has_sequence_privilege(s.oid, 'usage') end
    order by s.relname limit 20
  ) as sequences,
  current_setting('autovacuum')::bool as autovacuum, current_setting('track_counts')::bool as counts,
  greatest(age(d.datfrozenxid), mxid_age(d.datminmxid)) as transactions,
  array(
    select row_to_json(l)::text from (values
      ('server', '', (select count(*) from sessions),
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
          - coalesce(current_setting('reserved_connections', true)::int, 0)),
      ('database', quote_ident(d.datname), (select count(*) from sessions s where s.datid = d.oid), d.datconnlimit),
      ('role', quote_ident(r.rolname), (select count(*) from sessions s where s.usesysid = r.oid), r.rolconnlimit)
    ) as l ("of", name, used, most)
    where l.most > 0
  ) as limits,
  array(
    select format('%s (%s)', s.client, count(*)) from sessions s group by s.client order by count(*) desc, 1 limit 3
  ) as clients
from here h
join pg_database d on d.datname = current_database()
join pg_roles r on r.rolname = current_user
left join pg_namespace n on n.nspname = h.name;

-- name: database_holder_list
-- Who keeps dead rows of this database from being removed. A walsender has a snapshot for a standby with feedback and
-- without a slot. The catalog_xmin of a logical slot only holds rows of the catalogs; either kind of slot keeps WAL.
select h.kind, h.catalogs, left(h.name, 200) as name, quote_literal(h.name) as literal, h.pid, h.state, h.since,
  h.transactions
from (
  select case a.backend_type when 'walsender' then 'standby' else 'transaction' end as kind, false as catalogs,
    coalesce(nullif(a.application_name, ''), a.usename, '') as name, a.pid, coalesce(a.state, '') as state,
    case a.backend_type when 'walsender' then null else a.xact_start end as since,
    greatest(age(a.backend_xmin), age(a.backend_xid)) as transactions
  from pg_stat_activity a
  where (a.datname = current_database() or a.backend_type = 'walsender')
    and (a.backend_xmin is not null or a.backend_xid is not null) and a.pid <> pg_backend_pid()
    and a.backend_type <> 'autovacuum worker'
    and not exists (select from pg_stat_progress_vacuum v where v.pid = a.pid)
  union all
  select 'prepared', false, p.gid, null, 'prepared', p.prepared, age(p.transaction)
  from pg_prepared_xacts p
  where p.database = current_database()
  union all
  select 'slot', s.xmin is null, s.slot_name, null, case when s.active then 'active' else 'inactive' end, null,
    greatest(age(s.xmin), age(s.catalog_xmin))
  from pg_replication_slots s
  where s.xmin is not null or s.catalog_xmin is not null and s.database = current_database()
) h
order by h.transactions desc
limit 50;

-- name: database_table_list
-- What would wait for the lock of a table is not read: its size, and definitions of its indexes.
with locked as materialized (
  select distinct l.relation from pg_locks l where l.mode = 'AccessExclusiveLock' and l.granted
)
select c.relname::text as name, format('%I.%I', n.nspname, c.relname) as quoted,
  nullif(c.reltuples, -1)::bigint as rows_estimated,
  pg_stat_get_dead_tuples(c.oid) as dead_rows,
  case when l.relation is null then pg_table_size(c.oid) end as bytes,
  case when l.relation is null then pg_indexes_size(c.oid) end as index_bytes,
  greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)) as vacuumed_at,
  coalesce((o.options ->> 'autovacuum_enabled')::bool, true) as autovacuum,
  coalesce(o.options ->> 'autovacuum_vacuum_threshold',
    current_setting('autovacuum_vacuum_threshold'))::float8 as threshold,
  coalesce(o.options ->> 'autovacuum_vacuum_scale_factor',
    current_setting('autovacuum_vacuum_scale_factor'))::float8 as scale,
  greatest(age(c.relfrozenxid), mxid_age(c.relminmxid)) as transactions,
  array(
    select p.name from unnest('{select,insert,update,delete}'::text[]) as p (name)
    where not has_table_privilege(c.oid, p.name)
  ) as lacking
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join locked l on l.relation = c.oid
left join lateral (
  select json_object_agg(p.option_name, p.option_value) as options from pg_options_to_table(c.reloptions) p
) o on true
where c.relkind = 'r' and c.relname ~ '^river(ui)?_' and n.nspname = coalesce(:schema::text, current_schema())
order by bytes desc nulls first, name
limit 200;

-- name: database_index_list
-- The size that a B-tree would have without free space: 12 bytes and the columns for each entry, pages 90 % full. It
-- is too high where equal keys share an entry, and null where the columns' widths are not known.
with locked as materialized (
  select distinct l.relation from pg_locks l where l.mode = 'AccessExclusiveLock' and l.granted
)
select t.relname::text as "table", i.relname::text as name, format('%I.%I', n.nspname, i.relname) as quoted,
  x.indisvalid as valid, x.indisunique or x.indisprimary as constrains,
  exists (select from pg_stat_progress_create_index p where p.index_relid = i.oid) as building,
  case when l.relation is null then left(substring(pg_get_indexdef(i.oid) from ' USING (.*)$'), 1000) else '' end
    as definition,
  case when l.relation is null then pg_relation_size(i.oid) end as bytes,
  pg_stat_get_numscans(i.oid) as scans, pg_stat_get_blocks_fetched(i.oid) as blocks,
  case when m.amname = 'btree' and i.reltuples >= 0 and w.known = x.indnatts
    then (i.reltuples * (12 + 8 * ceil(w.bytes / 8.0)) / 0.9)::bigint end as expected_bytes
from pg_class t
join pg_namespace n on n.oid = t.relnamespace
join pg_index x on x.indrelid = t.oid
join pg_class i on i.oid = x.indexrelid
join pg_am m on m.oid = i.relam
cross join lateral (
  select max(d.relation) as relation from locked d where d.relation in (t.oid, i.oid)
) l
left join lateral (
  select count(*) as known, sum(s.avg_width) as bytes
  from pg_attribute a
  join pg_stats s on s.schemaname = n.nspname and s.tablename = t.relname and s.attname = a.attname
  where a.attrelid = t.oid and a.attnum = any(x.indkey) and i.relpages > 100
) w on true
where t.relkind = 'r' and t.relname ~ '^river(ui)?_' and n.nspname = coalesce(:schema::text, current_schema())
order by bytes desc nulls first, name
limit 500;
