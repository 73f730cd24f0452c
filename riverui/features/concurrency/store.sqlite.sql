-- Slots of limited queues, and which clients have borrowed them.

-- name: limit_lease
-- Does nothing for a client whose life is over. A key that is new has no slots taken.
insert into riverui_limit (queue, key, updated_at)
select :queue, a.value, :now
from json_each(riverui_list(:keys)) a
where riverui_list(:slots) ->> a.key > 0 and /* first: */ true /* :first */
  and exists (
    select 1 from riverui_client
    where id = :client_id and registered_at = :registered_at and declared_dead_at is null
  )
on conflict do nothing;
update riverui_limit as l
set taken = l.taken - g.had + g.granted,
  asked = g.asked,
  leases = iif(
    g.granted > 0, json_set(l.leases, '$."' || :holder || '"', g.granted),
    json_remove(l.leases, '$."' || :holder || '"')
  ),
  wanted = g.asked > g.granted or (l.wanted and g.granted >= g.had),
  freed = l.wanted and g.granted < g.had,
  updated_at = :now
from (
  select u.key, u.asked, u.had, /* slots: */ u.asked /* :slots */ as granted
  from (
    select x.key, x.taken, riverui_list(:slots) ->> a.key as asked,
      coalesce(x.leases ->> ('$."' || :holder || '"'), 0) as had
    from json_each(riverui_list(:keys)) a
    cross join riverui_limit x on x.queue = :queue and x.key = a.value
  ) u
) g
where l.queue = :queue and l.key = g.key
  and exists (
    select 1 from riverui_client
    where id = :client_id and registered_at = :registered_at and declared_dead_at is null
  );
insert into river_notification (created_at, payload, topic)
select distinct :now, json_object('queue', :queue), 'insert'
from riverui_limit
where queue = :queue and key in (select value from json_each(riverui_list(:keys))) and freed
  and exists (
    select 1 from riverui_client
    where id = :client_id and registered_at = :registered_at and declared_dead_at is null
  );
select l.key, coalesce(l.leases ->> ('$."' || :holder || '"'), 0) as slots
from riverui_client c
left join riverui_limit l
  on l.queue = :queue and l.key in (select value from json_each(riverui_list(:keys)))
where c.id = :client_id and c.registered_at = :registered_at and c.declared_dead_at is null;

-- part: limit_first (limit_lease.first)
true;

-- part: limit_slots (limit_lease.slots)
iif(u.asked <= u.had, u.asked, u.had + max(0, min(u.asked - u.had, :most - u.taken)));

-- name: limit_held_list
select key, leases ->> ('$."' || :holder || '"') as slots
from riverui_limit
where queue = :queue and leases ->> ('$."' || :holder || '"') is not null
order by key;

-- name: limit_dead_at
select max(declared_dead_at) as "dead_at:time" from riverui_client;

-- name: limit_dead_list
-- Who was declared dead, who has registered again since, and who is not known though it registered long ago.
select h.holder
from (select distinct k.key as holder from riverui_limit l cross join json_each(l.leases) k) h
left join riverui_client c on c.id || '@' || replace(c.registered_at, ' ', 'T') || '000' = h.holder
where c.declared_dead_at is not null
  or exists (
    select 1 from riverui_client n
    where n.id = substr(h.holder, 1, length(h.holder) - 27)
      and replace(n.registered_at, ' ', 'T') || '000' > substr(h.holder, -26)
  )
  or (c.id is null and substr(h.holder, -26) < replace(riverui_after(:now, -:unknown_seconds), ' ', 'T') || '000')
order by h.holder
limit :limit;

-- name: limit_free
insert into river_notification (created_at, payload, topic)
select distinct :now, json_object('queue', l.queue), 'insert'
from riverui_limit l
cross join json_each(l.leases) e
where e.key in (select value from json_each(riverui_list(:holders)));
select distinct l.queue
from riverui_limit l
cross join json_each(l.leases) e
where e.key in (select value from json_each(riverui_list(:holders)));
update riverui_limit
set leases = (
    select json_group_object(e.key, e.value) from json_each(riverui_limit.leases) e
    where e.key not in (select value from json_each(riverui_list(:holders)))
  ),
  taken = (
    select coalesce(sum(e.value), 0) from json_each(riverui_limit.leases) e
    where e.key not in (select value from json_each(riverui_list(:holders)))
  ),
  updated_at = :now
where exists (
  select 1 from json_each(riverui_limit.leases) e
  where e.key in (select value from json_each(riverui_list(:holders)))
);

-- name: limit_delete_idle
delete from riverui_limit
where (queue, key) in (
  select queue, key from riverui_limit where taken = 0 and updated_at < :before limit :limit
)
returning key;

-- name: limit_list
select queue, key, taken, leases, wanted as "wanted:bool", updated_at as "updated_at:time"
from (select * from riverui_limit where queue = :queue order by key limit :cap)
where taken > 0
order by taken desc, key
limit :limit;

-- name: limit_get
select queue, key, taken, leases as clients, wanted as "wanted:bool", updated_at as "updated_at:time"
from riverui_limit
where queue = :queue and key = :key;

-- name: limited_producer_upsert
insert into riverui_producer (client_id, queue, max_workers, concurrency, running, created_at, updated_at)
values (:client_id, :queue, :max_workers, :concurrency, :running, :now, :now)
on conflict (client_id, queue) do update
set max_workers = excluded.max_workers, concurrency = excluded.concurrency, running = excluded.running,
  updated_at = excluded.updated_at;

-- name: limited_producer_delete
delete from riverui_producer where client_id = :client_id and queue = :queue;

-- name: limited_producer_delete_before
delete from riverui_producer where updated_at < :before;

-- name: limited_producer_list
select id, client_id, queue, max_workers, concurrency, running, created_at as "created_at:time",
  updated_at as "updated_at:time"
from riverui_producer
where queue = :queue and updated_at >= :updated_after
order by id
limit :limit;
