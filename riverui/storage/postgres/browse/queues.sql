-- Queues: River's rows, and their waiting jobs.

-- name: queue_list
with recursive names as (
  select name from /* schema */river_queue where name ilike any(:patterns::text[])
  union
  select name from unnest(:job_queues::text[]) as n (name)
),
page as (
  select name from names order by name limit :limit::bigint
)
select p.name, q.created_at, left(q.metadata::text, 100000) as metadata,
  char_length(q.metadata::text) as metadata_size, q.paused_at, q.updated_at,
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'available' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  ) as available,
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'running' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  ) as running,
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'scheduled' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  ) as scheduled,
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'retryable' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  ) as retryable,
  (
    select min(x.scheduled_at)
    from generate_series(1, 4) as n (priority)
    cross join lateral (
      select j.scheduled_at from /* schema */river_job j
      where j.state = 'available' and j.queue = p.name and j.priority = n.priority
      order by j.scheduled_at limit 1
    ) x
  ) as oldest_waiting_at
from page p
left join /* schema */river_queue q on q.name = p.name
order by p.name;

-- name: queue_row_get
select name, created_at, left(metadata::text, 100000) as metadata,
  char_length(metadata::text) as metadata_size, paused_at, updated_at
from /* schema */river_queue
where name = :name::text;

-- name: queue_has_jobs
select exists (
  select from unnest(:states::text[]::/* schema */river_job_state[]) as s (state)
  cross join lateral (
    select 1 from /* schema */river_job j where j.state = s.state and j.queue = :name::text order by j.priority limit 1
  ) x
) as found;

-- name: queue_state_count
select (
  select count(*) from (
    select 1 from /* schema */river_job j
    where j.state = p.state::/* schema */river_job_state and j.queue = p.name
    order by j.priority limit :cap::bigint
  ) x
) as jobs
from unnest(:names::text[], :states::text[]) with ordinality as p (name, state, place)
order by p.place;

-- name: queue_kind_count
select x.kind, s.state::text as state, count(*) as jobs
from unnest(:states::text[]::/* schema */river_job_state[]) as s (state)
cross join lateral (
  select j.kind from /* schema */river_job j
  where j.state = s.state and j.queue = :name::text
  order by j.priority, j.scheduled_at
  limit :cap::bigint
) x
group by x.kind, s.state
order by x.kind, s.state;

-- part: queue_failure_list (job_list.scans)
-- A scan of job_list: the queue's discarded jobs that were due last, and its retryable ones, each in reach of the
-- fetching index; then the newest attempts of those.
(
  select f.id, f.at, true as matched, false as ended
  from (
    (
      select x.id, x.at
      from generate_series(1, 4) as n (priority)
      cross join lateral (
        select j.id, coalesce(j.attempted_at, j.scheduled_at) as at from /* schema */river_job j
        where j.state = 'discarded' and j.queue = :name::text and j.priority = n.priority
        order by j.scheduled_at desc limit 100
      ) x
    )
    union all
    (
      select j.id, coalesce(j.attempted_at, j.scheduled_at) as at from /* schema */river_job j
      where j.state = 'retryable' and j.queue = :name::text
      order by j.priority, j.scheduled_at limit 1000
    )
  ) f
  order by f.at desc, f.id desc
  limit :limit::bigint
);

-- name: queue_pause
-- River: QueuePause. A queue that is paused already keeps its times.
with chosen as materialized (
  select name, paused_at from /* schema */river_queue
  where :name::text = '*' or name = :name::text
  order by name
  for update
),
changed as (
  update /* schema */river_queue q
  set paused_at = now(), updated_at = now(), metadata = case
      when :why::text is null then q.metadata
      else case jsonb_typeof(q.metadata) when 'object' then q.metadata else '{}' end
        || jsonb_build_object(:key::text, :why::text::jsonb || jsonb_build_object('at', now()))
    end
  from chosen c
  where q.name = c.name and q.paused_at is null
  returning q.name
)
select c.name, x.name is not null as changed from chosen c left join changed x on x.name = c.name order by c.name;

-- name: queue_resume
-- River: QueueResume.
with chosen as materialized (
  select name, paused_at from /* schema */river_queue
  where :name::text = '*' or name = :name::text
  order by name
  for update
),
changed as (
  update /* schema */river_queue q
  set paused_at = null, updated_at = now(), metadata = case
      when jsonb_typeof(q.metadata -> :key::text) = 'object' then jsonb_set(
        q.metadata, array[:key::text],
        (q.metadata -> :key::text) || :why::text::jsonb || jsonb_build_object('resumed_at', now())
      )
      else q.metadata
    end
  from chosen c
  where q.name = c.name and q.paused_at is not null
  returning q.name
)
select c.name, x.name is not null as changed from chosen c left join changed x on x.name = c.name order by c.name;

-- name: notify
select pg_notify(concat(coalesce(:schema::text, current_schema()), '.', :topic::text), :payload::text) as notified;

-- name: notify_many
-- River: PGNotifyMany.
select pg_notify(concat(coalesce(:schema::text, current_schema()), '.', :topic::text), p.payload) as notified
from unnest(:payloads::text::text[]) as p (payload);

-- name: queue_row_get_many
select name, created_at, left(metadata::text, 100000) as metadata,
  char_length(metadata::text) as metadata_size, paused_at, updated_at
from /* schema */river_queue
where name = any(:names::text[]);

-- name: queue_row_list
-- River: QueueList.
select name, created_at, left(metadata::text, 100000) as metadata,
  char_length(metadata::text) as metadata_size, paused_at, updated_at
from /* schema */river_queue
where name > :after::text
order by name
limit :limit::bigint;

-- name: queue_update
-- River: QueueUpdate and its notification.
with changed as (
  update /* schema */river_queue q
  set metadata = :metadata::jsonb, updated_at = now()
  where q.name = :name::text
  returning q.name, q.created_at, q.metadata, q.paused_at, q.updated_at
)
select c.name, c.created_at, left(c.metadata::text, 100000) as metadata,
  char_length(c.metadata::text) as metadata_size, c.paused_at, c.updated_at,
  pg_notify(concat(coalesce(:schema::text, current_schema()), '.river_control'), :payload::text) as notified
from changed c;

-- name: queue_count_list
with page as (
  select q.name, q.created_at, q.metadata, q.paused_at, q.updated_at
  from /* schema */river_queue q
  where true /* named */
  order by q.name
  limit :limit::bigint
)
select p.name, p.created_at, left(p.metadata::text, 100000) as metadata,
  char_length(p.metadata::text) as metadata_size, p.paused_at, p.updated_at,
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'available' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  ) as available,
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'running' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  ) as running
from page p
order by p.name;

-- part: queue_count_named (queue_count_list.named)
and q.name = :name::text;

-- name: queue_set_metadata_key
-- Other keys of the metadata stay.
with changed as (
  update /* schema */river_queue q
  set metadata = case
      when :value::text is not null
        then jsonb_set(
          case jsonb_typeof(q.metadata) when 'object' then q.metadata else '{}' end,
          array[:key::text], :value::text::jsonb
        )
      when jsonb_typeof(q.metadata) = 'object' then q.metadata - :key::text
      else '{}'
    end,
    updated_at = now()
  where q.name = :name::text
  returning q.name, q.created_at, q.metadata, q.paused_at, q.updated_at
)
select c.name, c.created_at, left(c.metadata::text, 100000) as metadata,
  char_length(c.metadata::text) as metadata_size, c.paused_at, c.updated_at,
  pg_notify(
    concat(coalesce(:schema::text, current_schema()), '.river_control'),
    jsonb_build_object('action', 'metadata_changed', 'metadata', c.metadata, 'queue', c.name)::text
  ) as notified
from changed c;

-- name: queue_touch
-- River: QueueUpdate without metadata.
update /* schema */river_queue q
set updated_at = now()
where q.name = :name::text
returning q.name, q.created_at, left(q.metadata::text, 100000) as metadata,
  char_length(q.metadata::text) as metadata_size, q.paused_at, q.updated_at;
