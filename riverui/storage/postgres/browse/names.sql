-- Suggestions for searches: distinct names by loose scans, or from the newest jobs only.

-- name: job_kind_list
-- River: JobKindList, as a loose scan.
with recursive kinds as (
  (
    select j.kind, 1 as n from /* schema */river_job j
    where j.kind > :after::text
    order by j.kind limit 1
  )
  union all
  select x.kind, k.n + 1
  from kinds k
  cross join lateral (select j.kind from /* schema */river_job j where j.kind > k.kind order by j.kind limit 1) x
  where k.n < :most::bigint
)
select k.kind from kinds k
where k.kind ilike :pattern::text and not k.kind = any(:exclude::text::text[])
order by k.kind
limit :limit::bigint;

-- name: queue_row_name_list
-- River: QueueNameList.
select q.name from /* schema */river_queue q
where q.name > :after::text and q.name ilike :pattern::text and not q.name = any(:exclude::text::text[])
order by q.name
limit :limit::bigint;

-- name: job_queue_name_list
-- Distinct queues of jobs in some states.
select distinct b.queue
from unnest(:states::text[]::/* schema */river_job_state[]) as s (state)
cross join lateral (
  with recursive queues as (
    (select j.queue, 1 as n from /* schema */river_job j where j.state = s.state order by j.queue limit 1)
    union all
    select x.queue, q.n + 1
    from queues q
    cross join lateral (
      select j.queue from /* schema */river_job j
      where j.state = s.state and j.queue > q.queue
      order by j.queue limit 1
    ) x
    where q.n < :most::bigint
  )
  select queue from queues
) b
where b.queue ilike :pattern::text
order by b.queue
limit :limit::bigint;
