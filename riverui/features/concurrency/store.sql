-- Slots of limited queues, and which clients have borrowed them.

-- name: limit_lease
-- Each row is changed based on its current values, also after a concurrent change. The client's own row is locked, so
-- that it cannot be declared dead meanwhile. Keys are locked in order, to avoid deadlocks.
with life as materialized (
  select c.id
  from /* schema */riverui_client c
  where c.id = :client_id::text and c.registered_at = :registered_at::timestamptz and c.declared_dead_at is null
  for share
),
asked as materialized (
  select u.key, u.slots, /* first: */ u.slots /* :first */ as first_slots
  from life, unnest(:keys::text[], :slots::int[]) as u (key, slots)
  where u.slots > 0
    or exists (select from /* schema */riverui_limit x where x.queue = :queue::text and x.key = u.key)
  order by u.key
),
changed as (
  insert into /* schema */riverui_limit as l (queue, key, taken, asked, leases, wanted)
  select :queue::text, a.key, a.first_slots, a.slots, jsonb_build_object(:holder::text, a.first_slots),
    a.slots > a.first_slots
  from asked a
  order by a.key
  on conflict (queue, key) do update
  set taken = l.taken - coalesce((l.leases ->> :holder::text)::int, 0) + /* slots: */ excluded.asked /* :slots */,
    asked = excluded.asked,
    leases = case
      when /* slots: */ excluded.asked /* :slots */ > 0
        then l.leases || jsonb_build_object(:holder::text, /* slots: */ excluded.asked /* :slots */)
      else l.leases - :holder::text
    end,
    wanted = excluded.asked > /* slots: */ excluded.asked /* :slots */ or (
      l.wanted and /* slots: */ excluded.asked /* :slots */ >= coalesce((l.leases ->> :holder::text)::int, 0)
    ),
    freed = l.wanted and /* slots: */ excluded.asked /* :slots */ < coalesce((l.leases ->> :holder::text)::int, 0),
    updated_at = clock_timestamp()
  returning l.key, coalesce((l.leases ->> :holder::text)::int, 0) as slots, l.freed
)
select c.key, c.slots,
  case
    when c.freed then pg_notify(
      concat(coalesce(:schema::text, current_schema()), '.river_insert'),
      jsonb_build_object('queue', :queue::text)::text
    )
  end as notified
from changed c
union all
select null, null, null from life;

-- part: limit_first (limit_lease.first)
least(u.slots, :most::int);

-- part: limit_slots (limit_lease.slots)
case
  when excluded.asked <= coalesce((l.leases ->> :holder::text)::int, 0) then excluded.asked
  else coalesce((l.leases ->> :holder::text)::int, 0) + greatest(
    0, least(excluded.asked - coalesce((l.leases ->> :holder::text)::int, 0), :most::int - l.taken)
  )
end;

-- name: limit_held_list
select l.key, (l.leases ->> :holder::text)::int as slots
from /* schema */riverui_limit l
where l.queue = :queue::text and l.leases ? :holder::text
order by l.key;

-- name: limit_dead_at
select max(c.declared_dead_at) as dead_at from /* schema */riverui_client c;

-- name: limit_dead_list
-- Who was declared dead, who has registered again since, and who is not known though it registered long ago: so long
-- that its row would be seen.
select h.holder
from (
  select distinct k.holder
  from /* schema */riverui_limit l
  cross join lateral jsonb_object_keys(l.leases) as k (holder)
) h
left join /* schema */riverui_client c
  on c.id || '@' || to_char(c.registered_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') = h.holder
where c.declared_dead_at is not null
  or exists (
    select from /* schema */riverui_client n
    where n.id = left(h.holder, -27)
      and to_char(n.registered_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') > right(h.holder, 26)
  )
  or (c.id is null and right(h.holder, 26) < to_char(
    (now() - make_interval(secs => :unknown_seconds::float8)) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'
  ))
order by h.holder
limit :limit::bigint;

-- name: limit_free
-- In the order in which clients borrow. What a row holds is read when it is changed.
with held as materialized (
  select l.queue, l.key
  from /* schema */riverui_limit l
  where l.leases ?| :holders::text[]
  order by l.queue, l.key
  for update
),
changed as (
  update /* schema */riverui_limit l
  set leases = l.leases - :holders::text[],
    taken = (select coalesce(sum(e.value::int), 0) from jsonb_each_text(l.leases - :holders::text[]) e),
    updated_at = clock_timestamp()
  from held h
  where l.queue = h.queue and l.key = h.key
  returning l.queue
),
queues as (
  select distinct c.queue from changed c
)
select q.queue,
  pg_notify(
    concat(coalesce(:schema::text, current_schema()), '.river_insert'), jsonb_build_object('queue', q.queue)::text
  ) as notified
from queues q;

-- name: limit_delete_idle
delete from /* schema */riverui_limit l
where (l.queue, l.key) in (
  select x.queue, x.key
  from /* schema */riverui_limit x
  where x.taken = 0 and x.updated_at < :before::timestamptz
  limit :limit::bigint
  for update skip locked
)
returning l.key;

-- name: limit_list
select x.queue, x.key, x.taken, x.leases::text as leases, x.wanted, x.updated_at
from (
  select l.queue, l.key, l.taken, l.leases, l.wanted, l.updated_at
  from /* schema */riverui_limit l
  where l.queue = :queue::text
  order by l.key
  limit :cap::bigint
) x
where x.taken > 0
order by x.taken desc, x.key
limit :limit::bigint;

-- name: limit_get
select l.queue, l.key, l.taken, l.leases::text as clients, l.wanted, l.updated_at
from /* schema */riverui_limit l
where l.queue = :queue::text and l.key = :key::text;

-- name: limited_producer_upsert
insert into /* schema */riverui_producer as p (client_id, queue, max_workers, concurrency, running)
values (:client_id::text, :queue::text, :max_workers::int, :concurrency::text::jsonb, :running::text::jsonb)
on conflict (client_id, queue) do update
set max_workers = excluded.max_workers, concurrency = excluded.concurrency, running = excluded.running,
  updated_at = clock_timestamp()
returning p.id;

-- name: limited_producer_delete
delete from /* schema */riverui_producer p
where p.client_id = :client_id::text and p.queue = :queue::text
returning p.id;

-- name: limited_producer_delete_before
delete from /* schema */riverui_producer p
where p.updated_at < :before::timestamptz
returning p.id;

-- name: limited_producer_list
select p.id, p.client_id, p.queue, p.max_workers, p.concurrency::text as concurrency, p.running::text as running,
  p.created_at, p.updated_at
from /* schema */riverui_producer p
where p.queue = :queue::text and p.updated_at >= :updated_after::timestamptz
order by p.id
limit :limit::bigint;
