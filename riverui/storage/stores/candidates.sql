-- Waiting jobs that may be fetched, with the keys of their partitions.

-- name: job_candidate_list
-- In the fetching index's order, without a sort: rows are read one after the other until there are enough.
select w.id, w.kind, w.keys
from (
  select v.id, v.kind, v.priority, v.scheduled_at, v.keys, /* place: */ 1 /* :place */ as place
  from (
    select j.id, j.kind, j.priority, j.scheduled_at, array[/* keys: */ ''::text /* :keys */]::text[] as keys
    from /* jobs: */ /* schema */river_job j
    where j.state = 'available' and j.queue = :queue::text and j.scheduled_at <= coalesce(:now::timestamptz, now())
      /* kinds: */ and (j.kind = any(:kinds::text[])) is true /* :kinds */
      /* excepted: */ and j.id <> all(:except_ids::bigint[]) /* :excepted */
    order by j.priority, j.scheduled_at, j.id
    limit :window::bigint
    /* :jobs */
  ) v
) w
where w.place <= :per_key::bigint /* not_full */
/* order: */ order by w.priority, w.scheduled_at, w.id /* :order */
limit :limit::bigint;

-- part: candidate_place (job_candidate_list.place)
-- The job's place among those of its key.
row_number() over (partition by (v.keys)[:by::int] order by v.priority, v.scheduled_at, v.id);

-- part: candidate_not_full (job_candidate_list.not_full)
and (w.keys)[:place::int] <> all(:full::text[]);

-- name: job_candidate_list_by_key
-- Each step of the recursion finds the next key in the partition's index, however many jobs have the previous one.
with recursive waiting (key) as (
  (
    select (/* key: */ ''::text /* :key */) collate "C"
    from /* schema */river_job
    where state = 'available' and queue = :queue::text and (/* key: */ ''::text /* :key */) collate "C" > :after::text
    order by (/* key: */ ''::text /* :key */) collate "C"
    limit 1
  )
  union all
  select (
    select (/* key: */ ''::text /* :key */) collate "C"
    from /* schema */river_job
    where state = 'available' and queue = :queue::text and (/* key: */ ''::text /* :key */) collate "C" > n.key
    order by (/* key: */ ''::text /* :key */) collate "C"
    limit 1
  )
  from waiting n
  where n.key is not null
),
chosen as materialized (
  select n.key from waiting n
  where n.key is not null and n.key <> all(:full_keys::text[])
  limit :keys_most::bigint
)
select s.last_key, w.id, w.kind, w.keys
from (select case when count(*) >= :keys_most::bigint then max(c.key) end as last_key from chosen c) s
left join chosen c on true
left join lateral (
  select j.id, j.kind, j.priority, j.scheduled_at, array[/* keys: */ ''::text /* :keys */]::text[] as keys
  from /* schema */river_job j
  where j.state = 'available' and j.queue = :queue::text and (/* key: */ ''::text /* :key */) collate "C" = c.key
    and j.scheduled_at <= coalesce(:now::timestamptz, now())
    /* kinds: */ and (j.kind = any(:kinds::text[])) is true /* :kinds */
    /* excepted: */ and j.id <> all(:except_ids::bigint[]) /* :excepted */
  order by j.priority, j.scheduled_at, j.id
  limit :per_key::bigint
) w on true
where true /* not_full */
order by w.priority, w.scheduled_at, w.id;

-- part: partition_whole (job_candidate_list.keys)
''::text;

-- part: partition_by_kind (job_candidate_list.keys)
kind;

-- part: partition_by_both (job_candidate_list.keys)
kind || ' ' || /* args: */ '{}' /* :args */;

-- part: partition_by_args (job_candidate_list.keys)
-- An index entry has 2,700 bytes at most, and people read no more than the beginning.
case
  when octet_length(/* args: */ '{}' /* :args */) <= 250 then /* args: */ '{}' /* :args */
  else left(/* args: */ '{}' /* :args */, 100) || '... ' || md5(/* args: */ '{}' /* :args */)
end;

-- part: partition_all_args (partition_by_args.args)
(args::text);

-- part: partition_some_args (partition_by_args.args)
('{' || /* values: */ '' /* :values */ || '}');

-- part: partition_arg (partition_some_args.values)
:label::text || coalesce((args -> :name::text)::text, 'null');

-- name: partition_index_list
select i.relname
from pg_class t
join pg_index x on x.indrelid = t.oid
join pg_class i on i.oid = x.indexrelid
join pg_namespace n on n.oid = t.relnamespace
where n.nspname = coalesce(:schema::text, current_schema()) and t.relname = 'river_job'
  and i.relname like 'riverui\_job\_partition\_%' and x.indisvalid and x.indisready
order by i.relname;

-- name: job_key_list
select j.id, /* keys: */ ''::text /* :keys */ as key
from /* schema */river_job j
where j.id = any(:ids::bigint[]);
