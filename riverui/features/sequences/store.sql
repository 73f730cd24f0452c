-- Sequences: the migration describes the locks on a key's row. No statement waits for a transaction of unknown length,
-- except those that begin an insert or a user's action.

-- name: sequence_claim
-- Waits for a key that another transaction has just created and not committed, as for a unique key. A key that it has
-- committed meanwhile is in neither part of the answer: the caller asks again.
with held as materialized (
  select s.seq_key, s.head_id is null as dry
  from /* schema */riverui_sequence s
  where s.seq_key = any(:keys::text[])
  order by s.seq_key
  for key share
),
made as (
  insert into /* schema */riverui_sequence as s (seq_key)
  select k.seq_key
  from unnest(:keys::text[]) as k (seq_key)
  where not exists (select from held h where h.seq_key = k.seq_key)
  order by k.seq_key
  on conflict (seq_key) do nothing
  returning s.seq_key
)
select f.seq_key, f.found, to_regclass('/* schema */river_job_sequence') is not null as pro
from (
  select m.seq_key, 'made' as found from made m
  union all
  select h.seq_key, case when h.dry then 'dry' else 'busy' end from held h
) f;

-- name: sequence_claim_dry
-- Keys without a head behind which no job waits. Waiting jobs go first.
select s.seq_key
from /* schema */riverui_sequence s
where s.seq_key = any(:keys::text[]) and s.head_id is null
  and not exists (select from /* schema */riverui_sequence_job w where w.seq_key = s.seq_key)
order by s.seq_key
for no key update skip locked;

-- name: sequence_put
with headed as (
  update /* schema */riverui_sequence s
  set head_id = h.job_id, halted_at = null
  from unnest(:head_keys::text[], :head_ids::bigint[]) as h (seq_key, job_id)
  where s.seq_key = h.seq_key
)
insert into /* schema */riverui_sequence_job (seq_key, job_id)
select w.seq_key, w.job_id
from unnest(:waiting_keys::text[], :waiting_ids::bigint[]) as w (seq_key, job_id);

-- name: sequence_advance
-- For each key whose head has ended for good, the first waiting job becomes the head: available, or scheduled if its
-- time is yet to come. Heads that are known to have just completed are not read. A job that a user has put in another
-- state is the head as it is: a cancelled or discarded one halts the key unless its options say otherwise. Missing and
-- completed jobs are skipped. If all jobs read of a line were skipped, there may be `more`. A key or a next job that is
-- locked by another transaction is left for later. The comparison of the pending state is written so that no plan
-- searches all pending jobs.
with locked as materialized (
  select s.seq_key, s.head_id, s.halted_at
  from /* schema */riverui_sequence s
  where s.seq_key = any(:keys::text[])
  order by s.seq_key
  for no key update skip locked
),
heads as materialized (
  select j.id,
    case
      when j.state = 'completed' then 'over'
      when j.state = 'cancelled' then case
        when j.metadata @> '{"riverui:sequence": {"continue_on_cancelled": true}}' then 'over' else 'halted'
      end
      when j.state = 'discarded' then case
        when j.metadata @> '{"riverui:sequence": {"continue_on_discarded": true}}' then 'over' else 'halted'
      end
      when j.state = 'pending' then 'over'
      else 'active'
    end as stands,
    j.state = 'pending' as waits
  from /* schema */river_job j
  where j.id = any(array(
    select l.head_id from locked l
    where not exists (select from unnest(:over_ids::bigint[]) as o (id) where o.id = l.head_id)
  ))
),
stood as materialized (
  select l.seq_key, l.head_id, l.halted_at, coalesce(h.stands, 'over') as stands, coalesce(h.waits, false) as waits
  from locked l
  left join heads h on h.id = l.head_id
),
line as materialized (
  select o.seq_key, w.job_id, w.row
  from stood o
  cross join lateral (
    select w.job_id, w.ctid as row
    from /* schema */riverui_sequence_job w
    where w.seq_key = o.seq_key
    order by w.job_id
    limit :look::int
  ) w
  where o.stands = 'over'
  union all
  select o.seq_key, o.head_id, null
  from stood o
  where o.waits
    and not exists (
      select from /* schema */riverui_sequence_job w where w.seq_key = o.seq_key and w.job_id = o.head_id
    )
),
found as materialized (
  select j.id, j.state
  from /* schema */river_job j
  where j.id = any(array(select l.job_id from line l))
    and case j.state
      when 'completed' then false
      when 'cancelled' then not j.metadata @> '{"riverui:sequence": {"continue_on_cancelled": true}}'
      when 'discarded' then not j.metadata @> '{"riverui:sequence": {"continue_on_discarded": true}}'
      else true
    end
),
next as materialized (
  select distinct on (l.seq_key) l.seq_key, l.job_id, f.state
  from line l
  join found f on f.id = l.job_id
  order by l.seq_key, l.job_id
),
free as materialized (
  select j.id
  from /* schema */river_job j
  where j.id = any(array(select n.job_id from next n where n.state = 'pending')) and (j.state = 'pending') is true
  order by j.id
  for update skip locked
),
promoted as (
  update /* schema */river_job j
  set state = case
      when j.scheduled_at > clock_timestamp() + interval '5 seconds' then 'scheduled' else 'available'
    end::/* schema */river_job_state,
    scheduled_at = greatest(j.scheduled_at, clock_timestamp())
  from free f
  where j.id = f.id
  returning j.id, j.queue, j.state
),
settled as materialized (
  select o.seq_key,
    case
      when o.stands <> 'over' then o.head_id
      when n.state <> 'pending' or p.id is not null then n.job_id
    end as head_id,
    case
      when o.stands = 'halted' then now()
      when o.stands = 'over' and n.state in ('cancelled', 'discarded') then now()
    end as halted_at,
    n.state = 'pending' and p.id is null as held
  from stood o
  left join next n on n.seq_key = o.seq_key
  left join promoted p on p.id = n.job_id
  where o.stands = 'over' or (o.stands = 'halted') <> (o.halted_at is not null)
),
gone as (
  delete from /* schema */riverui_sequence_job w
  where w.ctid = any(array(
    select l.row
    from line l
    join settled x on x.seq_key = l.seq_key
    where l.job_id = x.head_id or not exists (select from found f where f.id = l.job_id)
  ))
),
kept as (
  -- If the head itself waits and is locked by another transaction, it goes into the line.
  insert into /* schema */riverui_sequence_job (seq_key, job_id)
  select o.seq_key, o.head_id
  from stood o
  join settled x on x.seq_key = o.seq_key
  where o.waits and x.head_id is distinct from o.head_id
  on conflict do nothing
),
headed as (
  update /* schema */riverui_sequence s
  set head_id = x.head_id, halted_at = x.halted_at
  from settled x
  where s.seq_key = x.seq_key
)
select x.seq_key,
  x.head_id is null and x.held is not true and exists (select from line l where l.seq_key = x.seq_key) as more
from settled x
where (
  select count(
    pg_notify(
      concat(coalesce(:schema::text, current_schema()), '.river_insert'), json_build_object('queue', q.queue)::text
    )
  )
  from (select distinct p.queue from promoted p where p.state = 'available') q
) is not null;

-- name: sequence_key_get_many
select j.id, j.metadata ->> 'seq_key' as seq_key,
  j.metadata ? 'riverui:sequence' and jsonb_typeof(j.metadata -> 'seq_key') = 'string'
    and char_length(j.metadata ->> 'seq_key') between 1 and 200 as ours
from /* schema */river_job j
where j.id = any(:ids::bigint[]) and jsonb_typeof(j.metadata) = 'object' and j.metadata ? 'seq_key';

-- name: sequence_make
insert into /* schema */riverui_sequence (seq_key)
select k.seq_key
from unnest(:keys::text[]) as k (seq_key)
order by k.seq_key
on conflict (seq_key) do nothing;

-- name: sequence_lock
select s.seq_key
from /* schema */riverui_sequence s
where s.seq_key = any(:keys::text[])
order by s.seq_key
for no key update;

-- name: sequence_requeue
-- A head that is put in line again, or that halts its key, is no longer the head.
with given as materialized (
  select g.seq_key, g.job_id from unnest(:keys::text[], :ids::bigint[]) as g (seq_key, job_id)
),
left_behind as (
  update /* schema */riverui_sequence s
  set head_id = null, halted_at = null
  where s.seq_key = any(:keys::text[])
    and (
      s.head_id = any(:ids::bigint[])
      or exists (
        select from /* schema */river_job j where j.id = s.head_id and (j.state in ('cancelled', 'discarded')) is true
      )
    )
)
insert into /* schema */riverui_sequence_job (seq_key, job_id)
select g.seq_key, g.job_id from given g
on conflict do nothing;

-- name: sequence_pro_columns
-- Only the name of River Pro's table, and that it holds keys, are publicly known.
select a.attname::text as name, a.atttypid = 'text'::regtype as is_text,
  a.attnotnull and not a.atthasdef and a.attidentity = '' and a.attgenerated = '' as needed
from pg_attribute a
where a.attrelid = to_regclass('/* schema */river_job_sequence') and a.attnum > 0 and not a.attisdropped;

-- name: sequence_hand_over
insert into /* schema */river_job_sequence (key)
select k.seq_key from unnest(:keys::text[]) as k (seq_key) order by k.seq_key
on conflict do nothing;

-- name: sequence_place
select s.seq_key, q.head_id, q.halted_at, h.state::text as head_state,
  exists (
    select from /* schema */riverui_sequence_job w where w.seq_key = s.seq_key and w.job_id = :id::bigint
  ) as waiting,
  (
    select count(*)
    from (
      select from /* schema */riverui_sequence_job w
      where w.seq_key = s.seq_key and w.job_id < :id::bigint
      limit :limit::bigint
    ) a
  ) as ahead,
  (
    select count(*)
    from (
      select from /* schema */riverui_sequence_job w
      where w.seq_key = s.seq_key and w.job_id > :id::bigint
      limit :limit::bigint
    ) b
  ) as behind,
  n.near_ids, n.near_states, n.near_kinds
from (
  select j.metadata ->> 'seq_key' as seq_key
  from /* schema */river_job j
  where j.id = :id::bigint and jsonb_typeof(j.metadata) = 'object' and j.metadata ? 'riverui:sequence'
    and jsonb_typeof(j.metadata -> 'seq_key') = 'string'
) s
left join /* schema */riverui_sequence q on q.seq_key = s.seq_key
left join /* schema */river_job h on h.id = q.head_id
cross join lateral (
  select coalesce(array_agg(x.job_id order by x.job_id), '{}') as near_ids,
    coalesce(array_agg(coalesce(o.state::text, '') order by x.job_id), '{}') as near_states,
    coalesce(array_agg(coalesce(left(o.kind, 200), '') order by x.job_id), '{}') as near_kinds
  from (
    (
      select w.job_id from /* schema */riverui_sequence_job w
      where w.seq_key = s.seq_key and w.job_id < :id::bigint
      order by w.job_id desc
      limit :named::bigint
    )
    union all
    (
      select w.job_id from /* schema */riverui_sequence_job w
      where w.seq_key = s.seq_key and w.job_id > :id::bigint
      order by w.job_id
      limit :named::bigint
    )
  ) x
  left join /* schema */river_job o on o.id = x.job_id
) n;

-- name: sequence_skip
-- As the head of its sequence, or as one that would halt it later.
with ended as materialized (
  select j.id
  from /* schema */river_job j
  where j.id = :id::bigint and (j.state in ('cancelled', 'discarded')) is true
),
headless as (
  update /* schema */riverui_sequence s
  set head_id = null, halted_at = null
  from ended e
  where s.seq_key = :key::text and s.head_id = e.id
  returning s.seq_key
),
out_of_line as (
  delete from /* schema */riverui_sequence_job w
  using ended e
  where w.seq_key = :key::text and w.job_id = e.id
  returning w.seq_key
)
select h.seq_key from headless h
union all
select o.seq_key from out_of_line o;

-- name: sequence_dry_list
select s.seq_key
from /* schema */riverui_sequence s
where s.dry and s.seq_key > :after::text
order by s.seq_key
limit :limit::bigint;

-- name: sequence_lock_dry
select s.seq_key
from /* schema */riverui_sequence s
where s.seq_key = any(:keys::text[]) and s.head_id is null
order by s.seq_key
for update skip locked;

-- name: sequence_forget
-- After sequence_lock_dry: no transaction is about to add a job behind these keys, and all added jobs are visible.
delete from /* schema */riverui_sequence s
where s.seq_key = any(:keys::text[]) and s.head_id is null
  and not exists (select from /* schema */riverui_sequence_job w where w.seq_key = s.seq_key)
returning s.seq_key;

-- name: sequence_list_heads
with page as materialized (
  select s.seq_key, s.head_id, s.halted_at
  from /* schema */riverui_sequence s
  where s.seq_key > :after::text
  order by s.seq_key
  limit :limit::bigint
),
heads as materialized (
  select j.id, j.state
  from /* schema */river_job j
  where j.id = any(array(select p.head_id from page p where p.head_id is not null))
)
select p.seq_key,
  p.head_id is not null and (
    h.id is null
    or h.state in ('completed', 'pending')
    or (h.state in ('cancelled', 'discarded')) <> (p.halted_at is not null)
  ) as due,
  p.head_id is null as dry
from page p
left join heads h on h.id = p.head_id
order by p.seq_key;
