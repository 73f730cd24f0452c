-- Signals of workflows, and the waits of their tasks. A transaction that sends a signal locks the workflow's turn until
-- its end, so that signals become visible in the order of their ids.

-- name: workflow_signal_turn
select pg_advisory_xact_lock(
  hashtextextended(concat(coalesce(:schema::text, current_schema()), '.riverui_workflow_signal.', :id::text), 0)
) as locked;

-- name: workflow_signal_begin
-- The workflow's attempt, and the signal that has the idempotency key.
select w.attempt, s.id, s.key, s.created_at, s.payload::text as payload, s.source::text as source,
  coalesce(s.key = :key::text and s.payload = :payload::text::jsonb, false) as same
from /* schema */riverui_workflow w
left join /* schema */riverui_workflow_signal s
  on s.workflow_id = w.id and s.attempt = w.attempt and s.idempotency_key = :idempotency_key::text
where w.id = :id::text;

-- name: workflow_signal_insert
-- Tasks that are due already need no update.
with inserted as (
  insert into /* schema */riverui_workflow_signal as s (
    workflow_id, attempt, key, payload, source, idempotency_key, bytes
  )
  values (
    :id::text, :attempt::int, :key::text, :payload::text::jsonb, :source::text::jsonb, :idempotency_key::text,
    octet_length(:payload::text) + octet_length(:source::text)
  )
  returning s.id, s.attempt, s.key, s.created_at, s.payload::text as payload, s.source::text as source
),
due as (
  update /* schema */riverui_workflow_task t
  set wait_due_at = clock_timestamp()
  where t.workflow_id = :id::text and t.state = 'wait' and t.wait_due_at > clock_timestamp()
    and jsonb_path_exists(t.wait, '$.terms[*] ? (@.signal_key == $key)', jsonb_build_object('key', :key::text))
)
select i.id, i.attempt, i.key, i.created_at, i.payload, i.source from inserted i;

-- name: own_workflow_signal_list
-- One key after the other, each in the order of its index.
select u.attempt, u.created_at, u.id, u.key, u.payload::text as payload, u.source::text as source
from (
  select p.attempt, p.created_at, p.id, p.key, p.payload, p.source, p.bytes,
    sum(p.bytes) over (order by p.id /* desc */) - p.bytes as before
  from (
    select s.attempt, s.created_at, s.id, s.key, s.payload, s.source, s.bytes
    from unnest(:keys::text::text[]) as k (key)
    cross join lateral (
      select s.attempt, s.created_at, s.id, s.key, s.payload, s.source, s.bytes
      from /* schema */riverui_workflow_signal s
      where s.workflow_id = :id::text and s.attempt = :attempt::bigint and s.key = k.key
        and (:cursor_id::bigint = 0 or /* beyond: */ s.id > :cursor_id::bigint /* :beyond */)
      order by s.id /* desc */
      limit :limit::bigint
    ) s
    order by s.id /* desc */
    limit :limit::bigint
  ) p
) u
where u.before < coalesce(:size::bigint, 9223372036854775807)
order by u.id /* desc */;

-- part: own_workflow_signal_before (own_workflow_signal_list.beyond)
s.id < :cursor_id::bigint;

-- part: wait_columns (workflow_wait_get.columns)
t.workflow_id, t.name, t.job_id, t.state, coalesce(t.wait::text, 'null') as wait, t.wait_progress::text as progress,
t.wait_changes as changes, t.wait_due_at as due_at;

-- name: workflow_signal_key_list
-- From each key to the next by the index: how many signals each has does not count.
with recursive found as (
  (
    select s.key, 1 as place
    from /* schema */riverui_workflow_signal s
    where s.workflow_id = :id::text and s.attempt = :attempt::bigint
    order by s.key
    limit 1
  )
  union all
  select n.key, f.place + 1
  from found f
  cross join lateral (
    select s.key
    from /* schema */riverui_workflow_signal s
    where s.workflow_id = :id::text and s.attempt = :attempt::bigint and s.key > f.key
    order by s.key
    limit 1
  ) n
  where f.place < :limit::bigint
)
select f.key from found f order by f.key;

-- name: workflow_signal_page_list
-- Of large ones only the size is returned.
select u.id, u.attempt, u.key, u.created_at, u.bytes,
  case when u.bytes <= :large::bigint then left(u.payload::text, :length::int) end as payload,
  case when u.bytes <= :large::bigint then left(u.source::text, :length::int) end as source
from (
  select s.id, s.attempt, s.key, s.created_at, s.bytes, s.payload, s.source
  from unnest(:keys::text::text[]) as k (key)
  cross join lateral (
    select s.id, s.attempt, s.key, s.created_at, s.bytes, s.payload, s.source
    from /* schema */riverui_workflow_signal s
    where s.workflow_id = :id::text and s.attempt = :attempt::bigint and s.key = k.key
      and (:before::bigint = 0 or s.id < :before::bigint)
    order by s.id desc
    limit :limit::bigint
  ) s
  order by s.id desc
  limit :limit::bigint
) u
order by u.id desc;

-- name: workflow_awaited_key_list
select k.key, t.name as task, t.state = 'wait' as waiting
from (
  select t.name, t.state, t.wait
  from /* schema */riverui_workflow_task t
  where t.workflow_id = :id::text and t.state in ('waiting', 'wait') and t.wait is not null
  order by t.state = 'waiting', t.name
  limit :limit::bigint
) t
cross join lateral (
  select distinct x.term ->> 'signal_key' as key
  from jsonb_array_elements(
    case when jsonb_typeof(t.wait -> 'terms') = 'array' then t.wait -> 'terms' else '[]' end
  ) as x (term)
  where x.term ->> 'signal_key' is not null
) k
order by not (t.state = 'wait'), k.key, t.name
limit :limit::bigint;

-- name: own_workflow_get
select w.id, w.name, w.attempt from /* schema */riverui_workflow w where w.id = :id::text;

-- name: workflow_wait_get
select /* columns: */ t.job_id /* :columns */
from /* schema */riverui_workflow_task t
where t.workflow_id = :id::text and t.name = :task::text;

-- name: workflow_wait_claim
-- Uses now(): clock_timestamp() is volatile and cannot be used with an index.
with due as materialized (
  select o.workflow_id, o.name
  from /* schema */riverui_workflow_task o
  where o.state = 'wait' and o.wait_due_at <= now()
  order by o.wait_due_at
  limit :limit::bigint
  for no key update skip locked
)
update /* schema */riverui_workflow_task t
set wait_due_at = clock_timestamp() + make_interval(secs => :lease::float8)
from due d
where t.workflow_id = d.workflow_id and t.name = d.name
returning /* columns: */ t.job_id /* :columns */;

-- name: workflow_wait_next
select least(extract(epoch from o.wait_due_at - now()), 86400)::float8 as seconds
from /* schema */riverui_workflow_task o
where o.state = 'wait'
order by o.wait_due_at
limit 1;

-- name: workflow_wait_notify
select pg_notify(concat(coalesce(:schema::text, current_schema()), '.riverui_workflow_wait'), '{}');

-- name: workflow_wait_quiet
select u.id
from unnest(:ids::text::text[]) as u (id)
where pg_try_advisory_xact_lock(
  hashtextextended(concat(coalesce(:schema::text, current_schema()), '.riverui_workflow_signal.', u.id), 0)
);

-- name: workflow_wait_facts
select t.workflow_id, t.name, w.name as workflow_name, w.attempt, w.created_at,
  greatest(
    t.created_at, w.retried_at,
    (
      select max(d.ended_at)
      from /* schema */riverui_workflow_edge e
      join /* schema */riverui_workflow_task d on d.workflow_id = e.workflow_id and d.name = e.dependency
      where e.workflow_id = t.workflow_id and e.task = t.name
    )
  ) as started_at,
  (select j.state::text from /* schema */river_job j where j.id = t.job_id) as job_state, clock_timestamp() as now
from unnest(:ids::text::text[], :names::text::text[]) as u (id, name)
join /* schema */riverui_workflow w on w.id = u.id
join /* schema */riverui_workflow_task t on t.workflow_id = u.id and t.name = u.name;

-- name: workflow_wait_dep_list
-- Outputs are left out once their total size exceeds the limit.
select p.workflow_id, p.task, p.name, p.state, p.ended_at,
  p.job_state,
  case when sum(coalesce(octet_length(p.output), 0)) over (partition by p.workflow_id, p.task order by p.name)
    <= :size::bigint then p.output end as output
from (
  select e.workflow_id, e.task, d.name, d.state, d.ended_at, j.state::text as job_state,
    case when pg_column_size(j.metadata) <= :size::bigint and jsonb_typeof(j.metadata) = 'object'
      then (j.metadata -> 'output')::text end as output
  from unnest(:ids::text::text[], :names::text::text[]) as u (id, name)
  join /* schema */riverui_workflow_edge e on e.workflow_id = u.id and e.task = u.name
  join /* schema */riverui_workflow_task d on d.workflow_id = e.workflow_id and d.name = e.dependency
  left join /* schema */river_job j on j.id = d.job_id
  limit :limit::bigint
) p;

-- name: workflow_wait_update_many
-- Waits that a signal has made due meanwhile stay due.
with given as materialized (
  select u.id, u.name, u.changes, u.lease, u.progress, u.due_at, u.state
  from unnest(
    :ids::text::text[], :names::text::text[], :changes::text::bigint[], :leases::text::timestamptz[],
    :progress::text::text[], :due_ats::text::timestamptz[], :states::text::text[]
  ) as u (id, name, changes, lease, progress, due_at, state)
),
changed as (
  update /* schema */riverui_workflow_task t
  set wait_progress = g.progress::jsonb, wait_changes = t.wait_changes + 1,
    wait_due_at = case when t.wait_due_at = g.lease then g.due_at else t.wait_due_at end
  from given g
  where t.workflow_id = g.id and t.name = g.name and t.wait_changes = g.changes and t.state = 'wait'
  returning t.job_id, g.state
),
jobs as (
  update /* schema */river_job j
  set metadata = j.metadata || jsonb_build_object('river:workflow_wait_state', c.state::jsonb)
  from changed c
  where j.id = c.job_id and j.id = any(array(select o.job_id from changed o where o.state is not null))
    and c.state is not null and (j.state = 'pending') is true
    and jsonb_typeof(j.metadata) = 'object'
)
select c.job_id from changed c order by c.job_id;

-- name: workflow_wait_due
update /* schema */riverui_workflow_task t
set wait_due_at = clock_timestamp()
from unnest(:ids::text::text[], :names::text::text[], :leases::text::timestamptz[]) as u (id, name, lease)
where t.workflow_id = u.id and t.name = u.name and t.wait_due_at = u.lease and t.state = 'wait'
returning t.job_id;

-- name: workflow_wait_reset
-- Tasks that are not worked again keep the state of their waits in their jobs' metadata.
update /* schema */riverui_workflow_task t
set wait_due_at = 'epoch', wait_progress = '{}', wait_changes = t.wait_changes + 1
where t.workflow_id = :id::text and t.wait is not null
returning t.job_id;

-- name: workflow_signal_delete_many
delete from /* schema */riverui_workflow_signal s
where s.id in (
  select o.id from /* schema */riverui_workflow_signal o
  where o.workflow_id = any(:ids::text::text[])
  limit :limit::bigint
)
returning s.id;
