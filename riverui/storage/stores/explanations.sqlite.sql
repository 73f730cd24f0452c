-- Reads for explaining why a job is not running.

-- name: job_line_get
-- The order in which River fetches (JobGetAvailable), walked from its beginning up to the job.
select count(*) as before, count(*) filter (where x.priority < :priority) as more_urgent
from (
  select j.priority from river_job j
  where j.state = 'available' and j.queue = :queue and j.priority <= :priority and j.scheduled_at <= :now
    and (j.priority, j.scheduled_at, j.id) < (:priority, :scheduled_at, :id)
  order by j.priority, j.scheduled_at, j.id
  limit :cap
) x;

-- name: queue_work_get
-- The jobs of each state and priority that were due last: among them are the last fetched ones. River's clients also
-- fetch jobs of kinds that they have no worker for, and fail them; long errors are not read to detect that.
with seen as materialized (
  select j.state, j.priority, j.kind, substr(last_client(j.attempted_by), 1, 100) as client, j.finalized_at,
    iif(j.attempted_at between riverui_after(:now, -86400) and :now, j.attempted_at, null) as attempted_at,
    j.kind = :kind and j.state in ('retryable', 'discarded') and iif(
      length(j.errors) <= 32768 and json_valid(json_text(j.errors)),
      coalesce(json_text(j.errors) ->> '$[#-1].error' like :unknown_kind || '%', 0), 0
    ) as unknown
  from json_each('["running", "completed", "retryable", "discarded"]') s
  cross join json_each('[1, 2, 3, 4]') n
  cross join river_job j on j.id in (
    select x.id from river_job x
    where x.state = s.value and x.queue = :queue and x.priority = n.value
    order by x.scheduled_at desc
    limit :seen
  )
),
clients as materialized (
  select w.client, max(w.attempted_at) as taken_at
  from seen w
  where w.client is not null and w.attempted_at is not null
  group by w.client
  order by 2 desc, 1
  limit 50
),
since as materialized (
  -- The time since which all completed jobs are known: if a priority has more, the oldest end of those read.
  select max(riverui_after(:now, -600), coalesce(max(w.oldest), '')) as ends_since
  from (
    select min(e.finalized_at) as oldest from seen e
    where e.state = 'completed'
    group by e.priority
    having count(*) >= :seen
  ) w
)
select
  (
    select count(*) from (select 1 from river_job j where j.state = 'running' and j.queue = :queue limit :cap)
  ) as running,
  (select max(w.attempted_at) from seen w where w.kind = :kind and not w.unknown) as "kind_at:time",
  (select max(w.attempted_at) from seen w where w.kind = :kind and w.unknown) as "unknown_at:time",
  (
    select json_group_array(r.client) from (
      select distinct w.client from seen w
      where w.kind = :kind and w.state = 'running' and w.client is not null
      order by w.client
    ) r
  ) as "kind_running:json",
  (
    select json_group_array((select max(w.attempted_at) from seen w where w.priority = n.value))
    from json_each('[1, 2, 3, 4]') n
  ) as "started:times",
  (select json_group_array(c.client) from clients c) as "client_names:json",
  (select json_group_array(c.taken_at) from clients c) as "client_times:times",
  (
    select json_group_array(e.finalized_at) from seen e, since s
    where e.state = 'completed' and e.finalized_at between s.ends_since and :now
  ) as "ends:times",
  (select s.ends_since from since s) as "ends_since:time";

-- name: job_overtaken_get
-- The jobs of each state and priority that were due last, as in queue_work_get. Jobs to be retried are left out: they
-- were due before that.
with seen as materialized (
  select j.priority, j.id, j.kind, j.scheduled_at, j.attempted_at
  from json_each('["running", "completed", "discarded"]') s
  cross join json_each('[1, 2, 3, 4]') n
  cross join river_job j on j.id in (
    select x.id from river_job x
    where x.state = s.value and x.queue = :queue and x.priority = n.value and n.value >= :priority
    order by x.scheduled_at desc
    limit :cap
  )
  where j.attempted_at <= :now
),
own as materialized (
  select w.id, w.attempted_at from seen w where w.kind = :kind order by w.attempted_at desc limit 1
)
select
  (
    select count(*) from seen w
    where w.kind <> :kind
      and (w.priority > :priority or (w.scheduled_at, w.id) > (:scheduled_at, :id))
      and w.attempted_at > max(:after, coalesce((select o.attempted_at from own o), ''))
  ) as jobs,
  (select o.attempted_at from own o) as "kind_at:time",
  (
    select substr(last_client(j.attempted_by), 1, 100) from own o cross join river_job j on j.id = o.id
  ) as kind_by;

-- name: job_lock_get
-- Only the whole file is locked.
select 0 as "transaction", null as pid, null as client, null as state, null as since from river_job where id = :id;

-- name: job_holder_list
-- Running jobs are few; the keys of those beyond the cap are not read.
select id, client
from (
  select id, substr(last_client(attempted_by), 1, 100) as client, /* key: */ '' /* :key */ as key
  from river_job
  where state = 'running' and queue = :queue
  order by priority
  limit :cap
)
where key = :held
limit :limit;

-- name: job_share_get
-- The waiting jobs that a client reads, by their keys; the job's own key first.
with own as materialized (
  select /* key: */ '' /* :key */ as key from river_job where id = :id
),
waiting as materialized (
  select id, priority, scheduled_at, /* key: */ '' /* :key */ as key
  from river_job
  where state = 'available' and queue = :queue and scheduled_at <= :now
  order by priority, scheduled_at, id
  limit :window
),
by_key as materialized (
  select key, count(*) as jobs, max(id = :id) as reached,
    sum((priority, scheduled_at, id) < (:priority, :scheduled_at, :id)) as before
  from waiting
  group by key
)
select (select key from own) as own, (select count(*) from by_key) as keys,
  (select coalesce(sum(jobs), 0) from by_key) as looked_at, k.key, k.jobs, k.reached, k.before
from (select 1)
left join (
  select key, jobs, reached, before
  from by_key
  order by key = (select key from own) desc, jobs desc, key
  limit :keys
) k on true;
