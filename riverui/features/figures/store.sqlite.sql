-- Figures: first those read from River's rows, each from a bounded part of an index, then those in `riverui_rollup`.
-- What rows there are is said for Postgres, in store.sql.

-- name: figure_clock_get
select :now as "now:time", coalesce((select max(id) from river_job), 0) as last_id;

-- name: job_ended_tally_list
-- Each range of time lies within one bucket. Bins take one byte a job, after a zero that marks this format.
with ended as materialized (
  select strftime(
      '%Y-%m-%d %H:%M:%f', cast(strftime('%s', r.value) as integer) / :step * :step, 'unixepoch'
    ) as bucket,
    j.state, j.queue, j.kind,
    iif(
      j.state = 'cancelled', null,
      max(cast(round((julianday(j.finalized_at) - julianday(j.attempted_at)) * 86400000) as integer), 0) * 1000
    ) as run_us,
    iif(
      j.state = 'cancelled' and j.attempted_at < j.scheduled_at, null,
      max(cast(round((julianday(j.attempted_at) - julianday(j.scheduled_at)) * 86400000) as integer), 0) * 1000
    ) as wait_us
  from json_each(:since) r
  cross join river_job j
  where j.state in ('cancelled', 'completed', 'discarded') and j.finalized_at >= r.value
    and j.finalized_at < :until ->> r.key
),
pairs as materialized (
  select queue, kind from ended group by queue, kind order by count(*) desc, queue, kind limit :pairs
),
queues as materialized (
  select distinct queue from pairs
)
select e.bucket as "bucket:time", substr(coalesce(q.queue, :other), 1, 200) as queue,
  substr(coalesce(p.kind, :other), 1, 200) as kind,
  sum(e.state = 'completed') as completed, sum(e.state = 'cancelled') as cancelled,
  sum(e.state = 'discarded') as discarded,
  0 as failed, 0 as snoozed, 0 as interrupted, 0 as inserted, 0 as cpu_us, 0 as cpu_attempts,
  coalesce(sum(iif(e.state = 'completed', e.run_us, 0)), 0) as run_sum_us,
  coalesce(max(iif(e.state = 'completed', e.run_us, 0)), 0) as run_max_us,
  riverui_bins(iif(e.state = 'completed', e.run_us, null), :first, :last, :log_gamma) as run_bins,
  coalesce(sum(iif(e.state = 'discarded', e.run_us, 0)), 0) as failed_run_sum_us,
  coalesce(max(iif(e.state = 'discarded', e.run_us, 0)), 0) as failed_run_max_us,
  riverui_bins(iif(e.state = 'discarded', e.run_us, null), :first, :last, :log_gamma) as failed_run_bins,
  coalesce(sum(e.wait_us), 0) as wait_sum_us, coalesce(max(e.wait_us), 0) as wait_max_us,
  riverui_bins(e.wait_us, :first, :last, :log_gamma) as wait_bins
from ended e
left join pairs p on p.queue = e.queue and p.kind = e.kind
left join queues q on q.queue = e.queue
group by 1, 2, 3;

-- name: job_ended_failure_list
-- Jobs of such ranges that were tried more than once, or discarded. The last attempt of a discarded job is known
-- without its errors, which may be long.
with ended as materialized (
  select j.state, j.id, j.attempt, j.attempted_at, substr(j.queue, 1, 200) as queue, substr(j.kind, 1, 200) as kind,
    iif(j.attempt > 1 and json_valid(json_text(j.errors)), json_text(j.errors), '[]') as errors
  from json_each(:since) r
  cross join json_each(:states) s
  cross join river_job j
  where j.state = s.value and j.finalized_at >= r.value and j.finalized_at < :until ->> r.key
    and (j.attempt > 1 or j.state = 'discarded')
  limit :limit
)
select id, cast(attempt as text) as attempt, attempted_at as "at:time", null as written_at, queue, kind
from ended
where state = 'discarded' and attempted_at is not null
union all
select w.id, substr(iif(e.type = 'object', e.value ->> 'attempt', null), 1, 9), null,
  substr(iif(e.type = 'object', e.value ->> 'at', null), 1, 40), w.queue, w.kind
from ended w
cross join json_each(w.errors) e
where e.key >= json_array_length(w.errors) - 10;

-- name: job_unfinished_failure_list
-- In the order of the fetching index. A retryable job's last attempt is known without its errors.
with looked as materialized (
  select id from (
    select id from river_job where state = 'retryable' order by queue, priority, scheduled_at, id limit :cap
  )
  union all
  select id from (
    select id from river_job where state = 'running' order by queue, priority, scheduled_at, id limit :cap / 5
  )
  union all
  select id from (
    select id from river_job where state = 'available' order by queue, priority, scheduled_at, id limit :cap / 25
  )
),
failed as materialized (
  select j.state, j.id, j.attempt, j.attempted_at, substr(j.queue, 1, 200) as queue, substr(j.kind, 1, 200) as kind,
    iif(
      (j.state <> 'retryable' or (:earlier and j.attempt > 1)) and json_valid(json_text(j.errors)),
      json_text(j.errors), '[]'
    ) as errors
  from looked x
  cross join river_job j on j.id = x.id
  where j.attempted_at >= :since
    and (j.state = 'retryable' or j.attempt > iif(j.state = 'running', 1, 0))
  limit :limit
)
select id, cast(attempt as text) as attempt, attempted_at as "at:time", null as written_at, queue, kind
from failed
where state = 'retryable'
union all
select w.id, substr(iif(e.type = 'object', e.value ->> 'attempt', null), 1, 9), null,
  substr(iif(e.type = 'object', e.value ->> 'at', null), 1, 40), w.queue, w.kind
from failed w
cross join json_each(w.errors) e
where e.key >= json_array_length(w.errors) - 10;

-- name: job_inserted_tally_list
-- Ids are handed out in order, so that the primary key finds the newest jobs.
select substr(n.created_at, 1, 17) || '00.000' as "at:time", substr(n.queue, 1, 200) as queue,
  substr(n.kind, 1, 200) as kind, count(*) as jobs, min(n.id) as first_id
from (
  select id, created_at, queue, kind from river_job where id > :after and id <= :upto order by id desc limit :limit
) n
group by 1, 2, 3
order by jobs desc;

-- name: queue_waiting_list
-- From one queue to the next along the fetching index.
with recursive names (name, n) as (
  select * from (select queue, 1 from river_job where state = 'available' order by queue limit 1)
  union all
  select (select min(queue) from river_job where state = 'available' and queue > p.name), p.n + 1
  from names p
  where p.name is not null and p.n < :limit
)
select substr(p.name, 1, 200) as queue,
  (
    select count(*) from (
      select 1 from river_job where state = 'available' and queue = p.name order by priority limit :cap
    )
  ) as waiting,
  (
    select min((
      select min(scheduled_at) from river_job
      where state = 'available' and queue = p.name and priority = n.value and scheduled_at <= :now
    ))
    from json_each('[1, 2, 3, 4]') n
  ) as "oldest_at:time"
from names p
where p.name is not null
order by p.name;

-- name: job_completed_pace_get
select count(*) as jobs, max(finalized_at) as "until:time"
from (
  select finalized_at from river_job
  where state = 'completed' and finalized_at >= :since
  order by finalized_at
  limit :most
);

-- name: job_first_completed_at
select finalized_at as "at:time"
from river_job
where state = 'completed' and finalized_at >= :since
order by finalized_at
limit 1;

-- part: rollup_columns (rollup_list.columns)
r.bucket as "bucket:time", r.queue, r.kind, r.sampled, r.completed, r.cancelled, r.discarded, r.failed, r.inserted,
r.run_sum_us, r.run_max_us, r.run_bins, r.failed_run_sum_us, r.failed_run_max_us, r.failed_run_bins, r.wait_sum_us,
r.wait_max_us, r.wait_bins, r.waiting, r.waiting_capped as "waiting_capped:bool", r.oldest_waiting_us, r.snoozed,
r.interrupted, r.cpu_us, r.cpu_attempts;

-- name: rollup_lock
-- Transactions that write have their turns already.
select 1 as "locked:bool";

-- name: rollup_newest_list
-- Ignores rows of the far future, which no dashboard has stored: one would be the newest for ever.
select n.step, n.bucket as "bucket:time"
from (
  select s.value as step, (
    select max(r.bucket) from riverui_rollup r
    where r.step = s.value and r.queue = '' and r.kind = '' and r.source = '' and r.bucket < riverui_after(:now, 3600)
  ) as bucket
  from json_each(:steps) s
) n
where n.bucket is not null;

-- name: rollup_weight_list
select bucket as "bucket:time",
  completed + cancelled + discarded + failed + snoozed + interrupted + inserted as weight
from riverui_rollup
where step = :step and queue = '' and kind = '' and source = '' and bucket in (select value from json_each(:buckets));

-- name: rollup_missing_list
select u.bucket as "bucket:time"
from (
  select distinct strftime(
    '%Y-%m-%d %H:%M:%f', cast(strftime('%s', bucket) as integer) / :step * :step, 'unixepoch'
  ) as bucket
  from riverui_rollup
  where step = :part and queue = '' and kind = '' and source = '' and bucket >= :since
) u
where not exists (
  select 1 from riverui_rollup w
  where w.step = :step and w.bucket = u.bucket and w.queue = '' and w.kind = '' and w.source = ''
)
order by u.bucket;

-- name: rollup_list
select /* columns: */ r.bucket /* :columns */
from json_each(:steps) s
cross join riverui_rollup r on r.step = s.value and r.bucket >= :since ->> s.key and r.bucket < :until ->> s.key
where r.source = '' /* terms */;

-- part: rollup_of_queue (rollup_list.terms)
and r.queue = :queue and r.kind = '';

-- part: rollup_of_pairs (rollup_list.terms)
and r.kind <> '' and (:queue = '' or r.queue = :queue) and (:kind = '' or r.kind = :kind);

-- name: rollup_delete
delete from riverui_rollup
where step = :step and source = '' and bucket in (select value from json_each(:buckets));

-- name: rollup_insert
insert into riverui_rollup (
  step, bucket, queue, kind, source, sampled, completed, cancelled, discarded, failed, snoozed, interrupted, inserted,
  run_sum_us, run_max_us, run_bins, failed_run_sum_us, failed_run_max_us, failed_run_bins, wait_sum_us, wait_max_us,
  wait_bins, waiting, waiting_capped, oldest_waiting_us, cpu_us, cpu_attempts
)
select n.value ->> 'step', riverui_after(n.value ->> 'bucket', 0), n.value ->> 'queue', n.value ->> 'kind',
  n.value ->> 'source', n.value ->> 'sampled', n.value ->> 'completed', n.value ->> 'cancelled',
  n.value ->> 'discarded', n.value ->> 'failed', n.value ->> 'snoozed', n.value ->> 'interrupted',
  n.value ->> 'inserted', n.value ->> 'run_sum_us', n.value ->> 'run_max_us', riverui_bytes(n.value ->> 'run_bins'),
  n.value ->> 'failed_run_sum_us', n.value ->> 'failed_run_max_us', riverui_bytes(n.value ->> 'failed_run_bins'),
  n.value ->> 'wait_sum_us', n.value ->> 'wait_max_us', riverui_bytes(n.value ->> 'wait_bins'),
  n.value ->> 'waiting', n.value ->> 'waiting_capped', n.value ->> 'oldest_waiting_us', n.value ->> 'cpu_us',
  n.value ->> 'cpu_attempts'
from json_each(:rows) n /* put */;

-- part: rollup_client_put (rollup_insert.put)
-- By the database's clock: dashboards have read older minutes already.
where riverui_after(n.value ->> 'bucket', 0) > riverui_after(:now, -:late)
on conflict (step, bucket, queue, kind, source) do update
set completed = excluded.completed, cancelled = excluded.cancelled, discarded = excluded.discarded,
  failed = excluded.failed, snoozed = excluded.snoozed, interrupted = excluded.interrupted,
  cpu_us = excluded.cpu_us, cpu_attempts = excluded.cpu_attempts,
  run_sum_us = excluded.run_sum_us, run_max_us = excluded.run_max_us, run_bins = excluded.run_bins,
  failed_run_sum_us = excluded.failed_run_sum_us, failed_run_max_us = excluded.failed_run_max_us,
  failed_run_bins = excluded.failed_run_bins,
  wait_sum_us = excluded.wait_sum_us, wait_max_us = excluded.wait_max_us, wait_bins = excluded.wait_bins;

-- name: rollup_client_list
select /* columns: */ r.bucket /* :columns */
from riverui_rollup r
where r.source <> '' and r.bucket >= :since and r.bucket < :until
order by r.bucket desc
limit :limit;

-- name: rollup_client_count_list
select bucket as "bucket:time", queue, kind, sum(failed) as failed, sum(snoozed) as snoozed,
  sum(interrupted) as interrupted, sum(cpu_us) as cpu_us, sum(cpu_attempts) as cpu_attempts
from riverui_rollup
where source <> '' and bucket >= :since
group by bucket, queue, kind
having sum(failed) + sum(snoozed) + sum(interrupted) + sum(cpu_attempts) > 0;

-- name: rollup_client_delete_old
delete from riverui_rollup
where (step, bucket, queue, kind, source) in (
  select step, bucket, queue, kind, source from riverui_rollup
  where source <> '' and bucket < riverui_after(:now, -:age)
  limit :limit
)
returning step;

-- name: rollup_delete_before
delete from riverui_rollup
where (step, bucket, queue, kind, source) in (
  select step, bucket, queue, kind, source from riverui_rollup
  where step = :step and bucket < :before
  order by bucket
  limit :limit
)
returning step;

-- name: rollup_may_truncate
select 1 as "may:bool";

-- name: rollup_truncate
delete from riverui_rollup;

-- name: rollup_delete_some
delete from riverui_rollup
where (step, bucket, queue, kind, source) in (
  select step, bucket, queue, kind, source from riverui_rollup limit :limit
)
returning step;
