-- Waiting jobs that may be fetched, with the keys of their partitions. There are no indexes of partitions, and so no
-- list by their keys.

-- name: job_candidate_list
select w.id, w.kind, w.keys as "keys:json"
from (
  select v.id, v.kind, v.priority, v.scheduled_at, v.keys, /* place: */ 1 /* :place */ as place
  from (
    select id, kind, priority, scheduled_at, json_array(/* keys: */ '' /* :keys */) as keys
    from river_job
    where state = 'available' and queue = :queue and scheduled_at <= :now
      /* kinds: */ and kind in (select value from json_each(riverui_list(:kinds))) /* :kinds */
      /* excepted: */ and id not in (select value from json_each(riverui_list(:except_ids))) /* :excepted */
    order by priority, scheduled_at, id
    limit :window
  ) v
) w
where w.place <= :per_key /* not_full */
order by w.priority, w.scheduled_at, w.id
limit :limit;

-- part: candidate_place (job_candidate_list.place)
-- The job's place among those of its key.
row_number() over (partition by v.keys ->> (:by - 1) order by v.priority, v.scheduled_at, v.id);

-- part: candidate_not_full (job_candidate_list.not_full)
and w.keys ->> (:place - 1) not in (select value from json_each(riverui_list(:full)));

-- part: partition_whole (job_candidate_list.keys)
'';

-- part: partition_by_kind (job_candidate_list.keys)
kind;

-- part: partition_by_both (job_candidate_list.keys)
kind || ' ' || /* args: */ '{}' /* :args */;

-- part: partition_by_args (job_candidate_list.keys)
iif(
  length(cast(/* args: */ '{}' /* :args */ as blob)) <= 250, /* args: */ '{}' /* :args */,
  substr(/* args: */ '{}' /* :args */, 1, 100) || '... ' || riverui_md5(/* args: */ '{}' /* :args */)
);

-- part: partition_all_args (partition_by_args.args)
(json_text(args));

-- part: partition_some_args (partition_by_args.args)
('{' || /* values: */ '' /* :values */ || '}');

-- part: partition_arg (partition_some_args.values)
:label || coalesce(valid_json(args) -> ('$.' || json_quote(:name)), 'null');

-- name: partition_index_list
select '' as relname where false;

-- name: job_key_list
select id, /* keys: */ '' /* :keys */ as key
from river_job
where id in (select value from json_each(riverui_list(:ids)));
