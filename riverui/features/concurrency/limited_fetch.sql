-- Fetching from a limited queue: jobs are chosen, their slots borrowed and they themselves claimed, all at once.

-- name: job_fetch_limited
-- It waits for no other client: what others hold at this moment, jobs and slots, is passed over. Only a key that is new
-- is waited for, in the order of the keys and before any row of another key is held. Slots are counted by the rows as
-- they are once they are held; what was read before that only says which jobs are worth trying.
with life as materialized (
  select c.id
  from /* schema */riverui_client c
  where c.id = :client_id::text and c.registered_at = :registered_at::timestamptz and c.declared_dead_at is null
  for share
),
used as materialized (
  select u.key, u.slots
  from unnest(:used_keys::text[], :used_slots::int[]) as u (key, slots)
),
seen as materialized (
  select w.id, w.key,
    coalesce((select u.slots from used u where u.key = w.key), 0)
      + row_number() over (partition by w.key order by w.priority, w.scheduled_at, w.id) as needs
  from (
    select v.id, v.key, v.priority, v.scheduled_at
    from (
      select j.id, j.priority, j.scheduled_at, (/* key: */ ''::text /* :key */) as key
      from /* jobs: */ /* schema */river_job j
      where j.state = 'available' and j.queue = :queue::text and j.scheduled_at <= coalesce(:now::timestamptz, now())
        /* kinds: */ and (j.kind = any(:kinds::text[])) is true /* :kinds */
        /* excepted: */ and j.id <> all(:except_ids::bigint[]) /* :excepted */
      order by j.priority, j.scheduled_at, j.id
      limit :window::bigint
      /* :jobs */
    ) v
    where v.key <> all(:full_keys::text[])
    /* order: */ order by v.priority, v.scheduled_at, v.id /* :order */
    limit :looked_at::bigint
  ) w
),
open as materialized (
  -- Nobody else changes what a client has that is alive.
  select s.id, s.key, coalesce(x.had, 0) as had
  from life
  cross join seen s
  left join lateral (
    select coalesce((l.leases ->> :holder::text)::int, 0) as had, l.taken
    from /* schema */riverui_limit l
    where l.queue = :queue::text and l.key = s.key
    limit 1
  ) x on true
  where s.needs <= least(:most_here::int, coalesce(x.had, 0) + greatest(0, :most::int - coalesce(x.taken, 0)))
),
locked as materialized (
  select j.id, j.priority, j.scheduled_at
  from /* schema */river_job j
  where j.id = any(array(select o.id from open o)) and (j.state = 'available') is true and j.queue = :queue::text
  order by j.priority, j.scheduled_at, j.id
  limit :limit::int
  for update skip locked
),
chosen as materialized (
  select k.id, o.key, o.had,
    coalesce((select u.slots from used u where u.key = o.key), 0)
      + row_number() over (partition by o.key order by k.priority, k.scheduled_at, k.id) as needs
  from locked k
  join open o on o.id = k.id
),
asked as materialized (
  select c.key, max(c.needs)::int as slots
  from chosen c
  where c.needs > c.had
  group by c.key
),
opened as (
  insert into /* schema */riverui_limit as l (queue, key, taken, asked, leases)
  select :queue::text, a.key, a.slots, a.slots, jsonb_build_object(:holder::text, a.slots)
  from asked a
  where a.key <> all(array(
      select l.key from /* schema */riverui_limit l
      where l.queue = :queue::text and l.key = any(array(select o.key from asked o))
    ))
  order by a.key
  on conflict (queue, key) do nothing
  returning l.key, l.taken as slots
),
held as materialized (
  select l.key, l.taken, coalesce((l.leases ->> :holder::text)::int, 0) as had
  from /* schema */riverui_limit l
  where l.queue = :queue::text and l.key = any(array(select a.key from asked a))
    and (select count(*) from opened) >= 0
  for update skip locked
),
counted as materialized (
  select a.key, a.slots as asked, h.had, greatest(h.had, least(a.slots, h.had + :most::int - h.taken)) as slots
  from asked a
  join held h on h.key = a.key
),
changed as (
  update /* schema */riverui_limit l
  set taken = l.taken - c.had + c.slots,
    asked = c.asked,
    leases = case
      when c.slots > 0 then l.leases || jsonb_build_object(:holder::text, c.slots)
      else l.leases
    end,
    wanted = l.wanted or c.asked > c.slots,
    updated_at = clock_timestamp()
  from counted c
  where l.queue = :queue::text and l.key = c.key
  returning l.key, c.slots
),
granted as materialized (
  select c.key, c.slots from changed c
  union all
  select o.key, o.slots from opened o
),
claimed as (
  update /* schema */river_job j
  set state = 'running',
    attempt = least(j.attempt + 1, 32767),
    attempted_at = coalesce(:now::timestamptz, now()),
    attempted_by = array_append(/* attempted_by: */ j.attempted_by /* :attempted_by */, :client_id::text)
  where j.id = any(array(
      select c.id
      from chosen c
      left join granted g on g.key = c.key
      where c.needs <= coalesce(g.slots, c.had)
    ))
  returning j.id, j.attempt, j.max_attempts, j.attempted_at, j.created_at, j.scheduled_at, j.priority,
    j.args::text as args, case when array_length(j.attempted_by, 1) > 1 then j.attempted_by end as attempted_by,
    case when array_length(j.errors, 1) > 0 then j.errors::text[] end as errors, j.kind, j.metadata::text as metadata,
    case when array_length(j.tags, 1) > 0 then j.tags::text[] end as tags, j.unique_key,
    j.unique_states::int as unique_states
),
answer as (
  select g.key, g.slots from granted g
  union all
  select null, (select count(*) from seen s)::int from life
)
select x.id, x.attempt, x.max_attempts, x.attempted_at, x.created_at, x.scheduled_at, x.priority, x.args,
  x.attempted_by, x.errors, x.kind, x.metadata, x.tags, x.unique_key, x.unique_states, x.key,
  t.key as slots_key, t.slots
from (
  select d.id, d.attempt, d.max_attempts, d.attempted_at, d.created_at, d.scheduled_at, d.priority, d.args,
    d.attempted_by, d.errors, d.kind, d.metadata, d.tags, d.unique_key, d.unique_states, c.key
  from claimed d
  join chosen c on c.id = d.id
) x
full join answer t on false;
