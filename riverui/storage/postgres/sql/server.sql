-- name: ping
select 1;

-- name: server_get
select current_setting('server_version'), current_database(), current_user,
  coalesce(:schema::text, current_schema(), ''),
  coalesce((select reltuples::bigint from pg_class where oid = to_regclass('/* schema */river_job')), -1),
  coalesce(pg_total_relation_size(to_regclass('/* schema */river_job')), 0);

-- name: server_settings
select name, current_setting(name)
from pg_settings
where name = any(:names::text[])
order by array_position(:names::text[], name);
