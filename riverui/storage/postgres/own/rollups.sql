-- Figures over time. A bucket is one row for everything together (no queue, no kind), which tells that it is there, one
-- for each queue (no kind), and one for each kind in a queue. What charts show has no `source`. What a client told of a
-- minute stands beside it under the client's name, only by kind in a queue, until dashboards have read it.

-- part: rollup_columns (rollup_list.columns)
r.bucket, r.queue, r.kind, r.sampled, r.completed, r.cancelled, r.discarded, r.failed, r.inserted, r.run_sum_us,
r.run_max_us, r.run_bins, r.failed_run_sum_us, r.failed_run_max_us, r.failed_run_bins, r.wait_sum_us, r.wait_max_us,
r.wait_bins, r.waiting, r.waiting_capped, r.oldest_waiting_us, r.snoozed, r.interrupted;

-- name: rollup_lock
-- Held until the end of the transaction, so that it works behind a pooler too.
select pg_try_advisory_xact_lock(
  hashtext(concat(coalesce(:schema::text, current_schema()), '.riverui_rollup'))
) as locked;

-- name: rollup_newest_list
-- One of the far future, which nobody can have stored, would be the newest for ever.
select s.step, r.bucket
from unnest(:steps::text::integer[]) as s (step)
cross join lateral (
  select r.bucket
  from /* schema */riverui_rollup r
  where r.step = s.step and r.queue = '' and r.kind = '' and r.source = ''
    and r.bucket < clock_timestamp() + interval '1 hour'
  order by r.bucket desc
  limit 1
) r;

-- name: rollup_told_list
select r.bucket,
  r.completed + r.cancelled + r.discarded + r.failed + r.snoozed + r.interrupted + r.inserted as weight, r.sampled
from /* schema */riverui_rollup r
where r.step = :step::integer and r.queue = '' and r.kind = '' and r.source = ''
  and r.bucket = any(:buckets::text::timestamptz[]);

-- name: rollup_unfolded_list
select u.bucket
from (
  select distinct to_timestamp(floor(extract(epoch from r.bucket) / :step::integer) * :step::integer) as bucket
  from /* schema */riverui_rollup r
  where r.step = :part::integer and r.queue = '' and r.kind = '' and r.source = ''
    and r.bucket >= :since::timestamptz and r.bucket < :until::timestamptz
) u
where not exists (
  select 1
  from /* schema */riverui_rollup w
  where w.step = :step::integer and w.bucket = u.bucket and w.queue = '' and w.kind = '' and w.source = ''
)
order by u.bucket;

-- name: rollup_list
select /* columns: */ r.bucket /* :columns */
from unnest(:steps::text::integer[], :since::text::timestamptz[], :until::text::timestamptz[])
  as s (step, since, until)
join /* schema */riverui_rollup r on r.step = s.step and r.bucket >= s.since and r.bucket < s.until
where r.source = '' /* terms */;

-- part: rollup_of_queue (rollup_list.terms)
and r.queue = :queue::text and r.kind = '';

-- part: rollup_of_kind (rollup_list.terms)
and r.kind = :kind::text;

-- part: rollup_of_pair (rollup_list.terms)
and r.queue = :queue::text and r.kind = :kind::text;

-- part: rollup_pairs (rollup_list.terms)
and r.kind <> '';

-- part: rollup_pairs_of_queue (rollup_list.terms)
and r.queue = :queue::text and r.kind <> '';

-- name: rollup_delete
delete from /* schema */riverui_rollup r
where r.step = :step::integer and r.source = '' and r.bucket = any(:buckets::text::timestamptz[]);

-- name: rollup_insert
insert into /* schema */riverui_rollup (
  step, bucket, queue, kind, sampled, completed, cancelled, discarded, failed, inserted, run_sum_us, run_max_us,
  run_bins, failed_run_sum_us, failed_run_max_us, failed_run_bins, wait_sum_us, wait_max_us, wait_bins, waiting,
  waiting_capped, oldest_waiting_us, snoozed, interrupted, source
)
select n.*
from unnest(
  :step::text::integer[], :bucket::text::timestamptz[], :queue::text::text[], :kind::text::text[],
  :sampled::text::integer[], :completed::text::bigint[], :cancelled::text::bigint[], :discarded::text::bigint[],
  :failed::text::bigint[], :inserted::text::bigint[], :run_sum_us::text::bigint[], :run_max_us::text::bigint[],
  :run_bins::text::bytea[], :failed_run_sum_us::text::bigint[], :failed_run_max_us::text::bigint[],
  :failed_run_bins::text::bytea[], :wait_sum_us::text::bigint[], :wait_max_us::text::bigint[],
  :wait_bins::text::bytea[], :waiting::text::integer[], :waiting_capped::text::boolean[],
  :oldest_waiting_us::text::bigint[], :snoozed::text::bigint[], :interrupted::text::bigint[], :source::text::text[]
) as n (step, bucket) /* put */;

-- part: rollup_client_put (rollup_insert.put)
-- By the database's clock, whatever the client's says: what is told too late was read without it already.
where n.bucket > clock_timestamp() - make_interval(secs => :late::float8)
on conflict on constraint riverui_rollup_pkey do update
set completed = excluded.completed, cancelled = excluded.cancelled, discarded = excluded.discarded,
  failed = excluded.failed, snoozed = excluded.snoozed, interrupted = excluded.interrupted,
  run_sum_us = excluded.run_sum_us, run_max_us = excluded.run_max_us, run_bins = excluded.run_bins,
  failed_run_sum_us = excluded.failed_run_sum_us, failed_run_max_us = excluded.failed_run_max_us,
  failed_run_bins = excluded.failed_run_bins,
  wait_sum_us = excluded.wait_sum_us, wait_max_us = excluded.wait_max_us, wait_bins = excluded.wait_bins;

-- name: rollup_client_list
select /* columns: */ r.bucket /* :columns */
from /* schema */riverui_rollup r
where r.source <> '' and r.bucket >= :since::timestamptz and r.bucket < :until::timestamptz
order by r.bucket desc
limit :limit::bigint;

-- name: rollup_client_count_list
select r.bucket, r.queue, r.kind, sum(r.failed)::bigint as failed, sum(r.snoozed)::bigint as snoozed,
  sum(r.interrupted)::bigint as interrupted
from /* schema */riverui_rollup r
where r.source <> '' and r.bucket >= :since::timestamptz
group by r.bucket, r.queue, r.kind
having sum(r.failed) + sum(r.snoozed) + sum(r.interrupted) > 0;

-- name: rollup_client_take
-- Minutes of which several clients told, the oldest first; what they told is returned, and deleted.
with minutes as materialized (
  select r.bucket
  from /* schema */riverui_rollup r
  where r.source <> '' and r.bucket < clock_timestamp() - make_interval(secs => :age::float8)
  group by r.bucket
  having min(r.source) <> max(r.source)
  order by r.bucket
  limit :limit::bigint
)
delete from /* schema */riverui_rollup r
using minutes m
where r.source <> '' and r.bucket = m.bucket
returning /* columns: */ r.bucket /* :columns */;

-- name: rollup_client_delete_old
delete from /* schema */riverui_rollup r
where r.ctid = any(array(
  select o.ctid
  from /* schema */riverui_rollup o
  where o.source <> '' and o.bucket < clock_timestamp() - make_interval(secs => :age::float8)
  limit :limit::bigint
))
returning r.step;

-- name: rollup_delete_before
delete from /* schema */riverui_rollup r
where r.ctid = any(array(
  select o.ctid
  from /* schema */riverui_rollup o
  where o.step = :step::integer and o.bucket < :before::timestamptz
  order by o.bucket
  limit :limit::bigint
))
returning r.step;

-- name: rollup_may_truncate
select has_table_privilege(to_regclass('/* schema */riverui_rollup'), 'truncate') as may;

-- name: rollup_truncate
truncate /* schema */riverui_rollup;

-- name: rollup_delete_some
delete from /* schema */riverui_rollup r
where r.ctid = any(array(select o.ctid from /* schema */riverui_rollup o limit :limit::bigint))
returning r.step;
