-- River's record of its migrations. Before version 5 it has no column `line`: the name then refers to the outer one.

-- name: migration_list
select m.line, m.version, m.created_at
from (select 'main'::text as line) as absent
cross join lateral (select line, version, created_at from /* schema */river_migration) m
order by m.line, m.version;

-- name: migration_insert
insert into /* schema */river_migration (line, version) values (:line::text, :version::bigint)
returning version;

-- name: migration_insert_without_line
insert into /* schema */river_migration (version) values (:version::bigint)
returning version;

-- name: migration_delete
delete from /* schema */river_migration where line = :line::text and version = :version::bigint
returning version;

-- name: migration_delete_without_line
delete from /* schema */river_migration where version = :version::bigint
returning version;

-- name: migration_lock
select pg_advisory_xact_lock(:key::bigint) as locked;

-- name: migration_table_exists
-- Reads a real table: to_regclass alone would not see a table that another process has just made.
select exists (select from pg_class where oid = to_regclass('/* schema */river_migration')) as found;

-- name: migration_line_exists
select exists (
  select from pg_attribute
  where attrelid = to_regclass('/* schema */river_migration') and attname = 'line' and not attisdropped
) as found;

-- name: job_table_exists
select exists (select from pg_class where oid = to_regclass('/* schema */river_job')) as found;

-- name: schema_exists
select to_regnamespace(quote_ident(:schema::text)) is not null as found;

-- name: river_table_list
-- Every table of River and riverui in the schema of river_job, except the record of migrations.
select c.relname as name
from pg_class c
where c.relnamespace = (select relnamespace from pg_class where oid = to_regclass('/* schema */river_job'))
  and c.relkind = 'r' and c.relname ~ '^river(ui)?_' and c.relname <> 'river_migration'
order by c.relname;
