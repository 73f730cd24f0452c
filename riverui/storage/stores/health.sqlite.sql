-- Reads for the health report.

-- name: health_running
select j.id, substr(j.queue, 1, 200) as queue, substr(j.kind, 1, 200) as kind,
  coalesce(substr(last_client(j.attempted_by), 1, 200), '') as client, j.attempted_at as "attempted_at:time"
from river_job j
where j.state = 'running'
order by j.queue, j.priority, j.scheduled_at
limit :cap;

-- name: health_overdue
-- Each state and priority of each queue is a short scan at the beginning of its part of the fetching index.
select min(coalesce(sum(x.jobs), 0), :cap) as jobs, min(x.oldest_at) as "oldest_at:time"
from (
  select
    (
      select count(*) from (
        select 1 from river_job j
        where j.state = s.value and j.queue = q.value and j.priority = n.value and j.scheduled_at <= :due_before
        limit 200
      )
    ) as jobs,
    (
      select min(j.scheduled_at) from river_job j
      where j.state = s.value and j.queue = q.value and j.priority = n.value and j.scheduled_at <= :due_before
    ) as oldest_at
  from json_each(:queues) q
  cross join json_each('["scheduled", "retryable"]') s
  cross join json_each('[1, 2, 3, 4]') n
) x;

-- name: health_waiting_kinds
-- The next jobs in River's order. A column without a function is that of the first job.
with next as materialized (
  select j.queue, substr(j.kind, 1, 200) as kind, j.priority, j.scheduled_at, j.attempt > 0 as tried,
    count(*) over (partition by j.queue) as waiting,
    row_number() over (partition by j.queue order by j.priority, j.scheduled_at) as place
  from json_each(:queues) q
  cross join river_job j on j.id in (
    select n.id from river_job n
    where n.state = 'available' and n.queue = q.value and n.scheduled_at <= :now
    order by n.priority, n.scheduled_at
    limit :cap
  )
)
select x.queue, x.kind, count(*) as jobs, sum(x.tried) as retries,
  sum(x.tried and x.place <= min(:first, (x.waiting + 1) / 2)) as first, x.priority,
  x.scheduled_at as "since:time", min(x.place) as place
from next x
group by x.queue, x.kind
order by x.queue, jobs desc
limit 1000;

-- name: health_waiting_overtaken
-- The jobs of each state and priority that were due last, as for takers. Jobs to be retried are left out: they were
-- due before that.
with asked as materialized (
  select q.value as queue, :kinds ->> q.key as kind, :priorities ->> q.key as priority, :since ->> q.key as since
  from json_each(:queues) q
),
seen as materialized (
  select j.queue, j.priority, substr(j.kind, 1, 200) as kind, j.scheduled_at, j.attempted_at
  from (select distinct queue from asked) q
  cross join json_each('["running", "completed", "discarded"]') s
  cross join json_each('[1, 2, 3, 4]') n
  cross join river_job j on j.id in (
    select x.id from river_job x
    where x.state = s.value and x.queue = q.queue and x.priority = n.value
    order by x.scheduled_at desc
    limit :newest
  )
  where j.attempted_at between riverui_after(:now, -86400) and :now
),
taken as materialized (
  select a.queue, a.kind, a.priority, a.since, riverui_after(a.since, :grace) as late_at, (
      select max(w.attempted_at) from seen w where w.queue = a.queue and w.kind = a.kind
    ) as taken_at
  from asked a
)
select t.queue, t.kind, t.taken_at as "taken_at:time", (
    select count(*) from seen w
    where w.queue = t.queue and w.kind <> t.kind
      and (w.priority > t.priority or w.priority = t.priority and w.scheduled_at > t.since)
      and w.attempted_at > max(t.late_at, coalesce(t.taken_at, ''))
  ) as overtaken
from taken t;

-- name: health_waiting_takers
-- The jobs of each state and priority that were due last: among them are the last fetched ones.
select x.queue, substr(x.client, 1, 200) as client, max(x.attempted_at) as "taken_at:time"
from (
  select j.queue, last_client(j.attempted_by) as client, j.attempted_at
  from json_each(:queues) q
  cross join json_each('["running", "completed", "retryable", "discarded"]') s
  cross join json_each('[1, 2, 3, 4]') n
  cross join river_job j on j.id in (
    select x.id from river_job x
    where x.state = s.value and x.queue = q.value and x.priority = n.value
    order by x.scheduled_at desc
    limit 20
  )
  where j.attempted_at between riverui_after(:now, -86400) and :now
) x
where x.client is not null
group by x.queue, substr(x.client, 1, 200)
order by 3 desc
limit 200;

-- name: health_tried
-- Those that most clients have tried come first: a client that was killed comes back with another id.
with seen as materialized (
  select j.state, j.id, j.attempt, iif(
      j.attempt > 1 and json_valid(json_text(j.attempted_by)),
      (select count(distinct substr(c.value, 1, 200)) from json_each(json_text(j.attempted_by)) c), 0
    ) as clients
  from json_each('["running", "available", "retryable"]') s
  cross join river_job j on j.id in (
    select x.id from river_job x
    where x.state = s.value
    order by x.queue, x.priority, x.scheduled_at
    limit :seen
  )
)
select coalesce((select max(n.jobs) from (select count(*) as jobs from seen group by state) n), 0) as most, (
    select json_group_array(w.id) from (
      select id from seen where attempt > 1 order by clients desc, attempt desc limit :most
    ) w
  ) as "ids:json";

-- name: health_lost
-- Rescues are counted in the metadata by River since 0.30, and are errors of the job before.
select x.id, x.queue, x.kind, x.rescues, x.attempted_at as "attempted_at:time"
from (
  select j.id, substr(j.queue, 1, 200) as queue, substr(j.kind, 1, 200) as kind, j.attempted_at, max(
      iif(
        json_valid(json_text(j.metadata)) and json_type(json_text(j.metadata), '$."river:rescue_count"') = 'integer'
          and json_text(j.metadata) ->> '$."river:rescue_count"' < 1000000,
        json_text(j.metadata) ->> '$."river:rescue_count"', 0
      ),
      (
        select count(*) from json_each(iif(json_valid(json_text(j.errors)), json_text(j.errors), '[]')) e
        where e.type = 'object' and e.value ->> '$.error' like 'Stuck job rescued by %'
      )
    ) as rescues
  from json_each(:ids) i
  cross join river_job j on j.id = i.value
) x
where x.rescues > 1
order by x.rescues desc, x.id
limit :limit;

-- name: health_rhythm_list
-- From one kind to the next along its index. Of kinds with more jobs nothing is known.
with recursive kinds (kind, n) as (
  select * from (select min(kind), 1 from river_job)
  union all
  select (select min(j.kind) from river_job j where j.kind > k.kind), k.n + 1
  from kinds k
  where k.kind is not null and k.n < :kinds
),
seen as materialized (
  select k.kind, j.created_at,
    riverui_seconds(lag(j.created_at) over (partition by k.kind order by j.created_at), j.created_at) as gap
  from kinds k
  cross join river_job j on j.kind = k.kind
  where (select count(*) from (select 1 from river_job c where c.kind = k.kind limit :most)) < :most
),
placed as (
  select *, row_number() over (partition by kind, gap > 1 order by gap) - 1 as place,
    count(*) over (partition by kind, gap > 1) - 1 as last
  from seen
)
select substr(p.kind, 1, 200) as kind, min(p.created_at) as "first_at:time", max(p.created_at) as "last_at:time",
  sum(p.gap > 1) as gaps,
  max(p.gap) filter (where p.gap > 1 and p.place = cast(round(0.1 * p.last) as integer)) as "short:span",
  max(p.gap) filter (where p.gap > 1 and p.place = cast(round(0.5 * p.last) as integer)) as "usual:span",
  max(p.gap) filter (where p.gap > 1 and p.place = cast(round(0.9 * p.last) as integer)) as "long:span",
  max(p.gap) as "longest:span", min(min(p.created_at)) over () as "since:time"
from placed p
group by p.kind;
