-- Queues, as clients and the leader keep them.

-- name: queue_upsert
-- River: QueueCreateOrSetUpdatedAt.
insert into /* schema */river_queue as q (name, created_at, updated_at)
values (:name::text, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
on conflict (name) do update set updated_at = excluded.updated_at
returning q.name, q.created_at, left(q.metadata::text, 100000) as metadata,
  char_length(q.metadata::text) as metadata_size, q.paused_at, q.updated_at;

-- name: queue_upsert_many
-- In one order, so that two clients do not deadlock.
insert into /* schema */river_queue as q (name, created_at, updated_at)
select n.name, now(), now() from unnest(:names::text[]) as n (name) order by n.name
on conflict (name) do update set updated_at = excluded.updated_at
returning q.name, q.created_at, left(q.metadata::text, 100000) as metadata,
  char_length(q.metadata::text) as metadata_size, q.paused_at, q.updated_at;

-- name: queue_with_available_list
-- The limit keeps each subquery a short scan of the fetching index.
select n.name
from unnest(:names::text[]) as n (name)
cross join lateral (
  select 1 from /* schema */river_job j
  where j.state = 'available' and j.queue = n.name and j.scheduled_at <= now()
  order by j.priority, j.scheduled_at limit 1
) x;

-- name: queue_delete_expired
-- River: QueueDeleteExpired.
delete from /* schema */river_queue q
where q.name in (
  select e.name from /* schema */river_queue e
  where e.updated_at < :updated_before::timestamptz
  order by e.name
  limit :limit::bigint
) and q.updated_at < :updated_before::timestamptz
returning q.name;

-- name: queue_restore_many
insert into /* schema */river_queue (name, created_at, metadata, paused_at, updated_at)
select n.name, n.created_at, n.metadata::jsonb, n.paused_at, n.updated_at
from unnest(
  :names::text[], :created_at::timestamptz[], :metadata::text[], :paused_at::timestamptz[], :updated_at::timestamptz[]
) as n (name, created_at, metadata, paused_at, updated_at)
order by n.name
on conflict (name) do update set created_at = excluded.created_at, metadata = excluded.metadata,
  paused_at = excluded.paused_at, updated_at = excluded.updated_at;
