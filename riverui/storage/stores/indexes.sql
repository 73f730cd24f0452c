-- Indexes, for the reindexer.

-- name: index_list
select i.relname
from pg_class t
join pg_index x on x.indrelid = t.oid
join pg_class i on i.oid = x.indexrelid
join pg_namespace n on n.oid = t.relnamespace
where n.nspname = coalesce(:schema::text, current_schema()) and t.relname ~ '^river_'
order by i.relname;

-- name: job_truncate
truncate /* schema */river_job;
