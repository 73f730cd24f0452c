-- What jobs cost the database: sizes of some jobs of each kind, and what pg_stat_statements has of River's statements.

-- name: job_size_list
-- Some jobs of each kind, along the index of kinds: the order makes the planner use it, however common the kind is. Of
-- a row above 2 kB the largest value is in the table's TOAST. Entries are the keys and values in the two GIN indexes:
-- each text once, a long one as a hash; none of documents above 50 kB or below 20 levels.
select k.kind, count(*) as jobs, avg(s.args)::float8 as args_bytes,
  avg(s.small + s.large - l.toasted)::float8 as row_bytes, avg(s.added)::float8 as added_bytes,
  avg(l.toasted)::float8 as toasted_bytes, avg(s.names)::float8 as name_bytes, avg(e.bytes)::float8 as entry_bytes
from unnest(:kinds::text[]) as k (kind)
cross join lateral (
  select j.args, j.metadata, j.attempted_by, j.errors, j.tags, j.kind, j.queue, j.unique_key
  from /* schema */river_job j
  where j.kind >= k.kind and j.kind <= k.kind
  order by j.kind
  limit :jobs::int
) j
cross join lateral (
  select pg_column_size(j.args) as args,
    octet_length(j.kind) + octet_length(j.queue) + case when j.unique_key is null then 0 else 96 end as names,
    coalesce(pg_column_size(j.attempted_by), 0) + coalesce(pg_column_size(j.errors), 0)
      + case
          when pg_column_size(j.metadata) >= 50000 then pg_column_size(j.metadata)
          when jsonb_typeof(j.metadata) = 'object'
            then pg_column_size(j.metadata) - pg_column_size(j.metadata - '{river:log,output}'::text[])
          else 0
        end as added,
    greatest(pg_column_size(j.args), pg_column_size(j.metadata), pg_column_size(j.errors)) as large,
    88 + pg_column_size(j.args) + pg_column_size(j.metadata) + coalesce(pg_column_size(j.errors), 0)
      - greatest(pg_column_size(j.args), pg_column_size(j.metadata), pg_column_size(j.errors))
      + coalesce(pg_column_size(j.attempted_by), 0) + coalesce(pg_column_size(j.tags), 0) + octet_length(j.kind)
      + octet_length(j.queue) + coalesce(octet_length(j.unique_key), 0) as small
) s
cross join lateral (
  select case when s.small + s.large > 2032 then s.large else 0 end as toasted
) l
cross join lateral (
  select coalesce(sum(greatest(d.bytes, 16)), 0) as bytes
  from (values (j.args), (j.metadata)) as v (document)
  cross join lateral (
    select sum((case when octet_length(t.word) > 125 then 18 else 10 + octet_length(t.word) end + 7) / 8 * 8) as bytes
    from (
      select coalesce(p.part #>> '{}', 'null') as word
      from jsonb_path_query(v.document, '$.**{0 to 20}') as p (part)
      where jsonb_typeof(p.part) not in ('object', 'array')
      union
      select n.name
      from jsonb_path_query(v.document, '$.**{0 to 20} ? (@.type() == "object")') as p (part)
      cross join lateral jsonb_object_keys(p.part) as n (name)
    ) t
    where pg_column_size(v.document) < 50000 and octet_length(v.document::text) < 50000
  ) d
) e
group by k.kind;

-- name: statement_stats_there
select to_regclass('pg_stat_statements') is not null as there;

-- name: statement_mean_get
-- Inserts and changes of jobs, of any client: per row, as one statement changes many.
select sum(s.wal_bytes / s.rows)::float8 as wal, sum(s.milliseconds / s.rows)::float8 / 1e3 as seconds,
  count(*) as classes
from (
  select s.changes, sum(s.wal_bytes) * (1 + s.changes::int) as wal_bytes,
    sum(s.total_exec_time) * (1 + s.changes::int) as milliseconds, nullif(sum(s.rows), 0) as rows
  from (
    select s.query !~* '\minsert\s+into\s+\S*river_job\M' as changes, s.wal_bytes, s.total_exec_time, s.rows
    from pg_stat_statements s
    where s.dbid = (select d.oid from pg_database d where d.datname = current_database())
      and s.query ~* '\m(insert\s+into|update)\s+\S*river_job\M'
  ) s
  group by s.changes
) s;
