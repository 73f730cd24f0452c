-- Dead letters: how discarded jobs are moved there and restored.

-- part: dead_job_moved (job_delete_before.kept)
-- Ends job_delete_before for clients that keep discarded jobs.
returning j.id, j.unique_key, j.unique_states, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at,
    j.attempt, j.max_attempts, j.priority, j.kind, j.queue, j.state, j.args, j.attempted_by, j.errors, j.metadata,
    j.tags
),
moved as (
  insert into /* schema */riverui_dead_job (
    id, unique_key, unique_states, attempted_at, created_at, finalized_at, scheduled_at, attempt, max_attempts,
    priority, kind, queue, state, last_error, args, attempted_by, errors, metadata, tags
  )
  select g.id, g.unique_key, g.unique_states, g.attempted_at, g.created_at, g.finalized_at, g.scheduled_at, g.attempt,
    g.max_attempts, g.priority, g.kind, g.queue, g.state::text,
    left(coalesce(l.error ->> 'error', l.error::text, ''), 2000), g.args, g.attempted_by, g.errors, g.metadata, g.tags
  from gone g
  cross join lateral (select g.errors[array_upper(g.errors, 1)] as error) l
  where g.state = 'discarded'
)
select count(*) as deleted from gone;

-- name: dead_job_keep_many
-- Copies jobs that the transaction is about to delete. All get the transaction's time, by which an undo finds them.
with asked as (
  select distinct a.id from unnest(:ids::bigint[]) as a (id)
),
locked as materialized (
  select j.id, j.state
  from /* schema */river_job j
  where j.id = any(:ids::bigint[])
  order by j.id
  for update /* wait */
),
kept as (
  insert into /* schema */riverui_dead_job (
    id, unique_key, unique_states, attempted_at, created_at, died_at, finalized_at, scheduled_at, attempt, max_attempts,
    priority, kind, queue, reason, state, last_error, args, attempted_by, errors, metadata, tags
  )
  select g.id, g.unique_key, g.unique_states, g.attempted_at, g.created_at, now(), g.finalized_at, g.scheduled_at,
    g.attempt, g.max_attempts, g.priority, g.kind, g.queue, 'deleted', g.state::text,
    left(coalesce(l.error ->> 'error', l.error::text, ''), 2000), g.args, g.attempted_by, g.errors,
    case
      when jsonb_typeof(g.metadata) = 'object' and :user::text <> ''
        then jsonb_set(g.metadata, array['riverui:deleted_by'], to_jsonb(:user::text), true)
      else g.metadata
    end,
    g.tags
  from locked k
  join /* schema */river_job g on g.id = k.id
  cross join lateral (select g.errors[array_upper(g.errors, 1)] as error) l
  where k.state <> 'running'
  order by g.id
  on conflict do nothing
  returning id
)
select a.id, now() as died_at,
  case
    when k.id is not null then 'changed'
    when l.state = 'running' then 'running'
    when l.id is not null then 'kept'
    when exists (select from /* schema */river_job j where j.id = a.id) then 'locked'
    else 'not_found'
  end as outcome
from asked a
left join locked l on l.id = a.id
left join kept k on k.id = a.id
order by a.id;

-- part: dead_job_keep_others (dead_job_keep_many.wait)
skip locked;

-- name: dead_job_deleted_list
select d.id
from /* schema */riverui_dead_job d
where d.died_at = :died_at::timestamptz and d.reason = 'deleted'
  and (
    jsonb_typeof(d.metadata) <> 'object'
    or coalesce(d.metadata ->> 'riverui:deleted_by', '') = :user::text
  )
order by d.id
limit :limit::bigint;

-- name: dead_job_undo_many
-- Restores jobs as they were. A waiting job of a sequence is restored as discarded: its sequence decides when it may
-- run. A waiting task of a workflow is not restored, as its workflow has counted it as failed and continued.
with asked as (
  select distinct a.id from unnest(:ids::bigint[]) as a (id)
),
locked as materialized (
  select d.id, d.state in ('available', 'pending', 'retryable', 'scheduled') as waits,
    d.metadata ->> 'seq_key' is not null as in_line, d.metadata ->> 'workflow_id' is not null as is_task
  from /* schema */riverui_dead_job d
  where d.id = any(:ids::bigint[]) and d.reason = 'deleted'
  order by d.id
  for update skip locked
),
back as (
  insert into /* schema */river_job (
    id, args, attempt, attempted_at, attempted_by, created_at, errors, finalized_at, kind, max_attempts, metadata,
    priority, queue, scheduled_at, state, tags, unique_key, unique_states
  )
  select d.id, d.args, d.attempt, d.attempted_at, d.attempted_by, d.created_at, d.errors,
    case when l.waits and l.in_line then now() else d.finalized_at end, d.kind, d.max_attempts,
    case when jsonb_typeof(d.metadata) = 'object' then d.metadata - 'riverui:deleted_by' else d.metadata end,
    d.priority, d.queue, d.scheduled_at,
    (case when l.waits and l.in_line then 'discarded' else d.state end)::/* schema */river_job_state, d.tags,
    d.unique_key, d.unique_states
  from locked l
  join /* schema */riverui_dead_job d on d.id = l.id
  where not (l.waits and l.is_task)
  order by d.id
  on conflict do nothing
  returning id, queue, state
),
gone as (
  delete from /* schema */riverui_dead_job d
  where d.id in (select b.id from back b)
),
notified as materialized (
  select pg_notify(
    concat(coalesce(:schema::text, current_schema()), '.river_insert'),
    json_build_object('queue', q.queue)::text
  )
  from (select distinct b.queue from back b where b.state = 'available') q
)
select a.id,
  case
    when b.id is not null and l.waits and l.in_line then 'requested'
    when b.id is not null then 'changed'
    when l.waits and l.is_task then 'workflow'
    when l.id is not null then 'unique_conflict'
    when exists (select from /* schema */riverui_dead_job d where d.id = a.id and d.reason = 'deleted') then 'locked'
    else 'not_found'
  end as outcome
from asked a
left join locked l on l.id = a.id
left join back b on b.id = a.id
cross join (select count(*) from notified) n
order by a.id;

-- name: dead_job_list
-- A search for a text reads a limited number of rows. If it stops at that limit, the last row read is returned as well,
-- to show how far it got.
with looked as materialized (
  select d.id, d.died_at, /* matches: */ true /* :matches */ as matched,
    row_number() over (order by d.died_at desc, d.id desc) as place
  from (
    select w.id, w.died_at, w.last_error
    from /* schema */riverui_dead_job w
    where true /* of_kind */ /* of_queue */ /* cursor */
    order by w.died_at desc, w.id desc
    limit :window::bigint
  ) d
),
listed as materialized (
  select l.id, l.matched, l.place
  from looked l
  where l.matched or l.place = :window::bigint
  order by l.place
  limit :limit::bigint + 1
)
select l.matched, j.died_at, j.reason,
  -- A list does not unpack long metadata.
  case
    when j.reason = 'deleted' and pg_column_size(j.metadata) <= 20000
      then left(j.metadata ->> 'riverui:deleted_by', 200)
  end as deleted_by, /* columns: */ j.id /* :columns */
from listed l
join /* schema */riverui_dead_job j on j.id = l.id
order by l.place;

-- name: dead_job_count
select count(*) filter (where /* matches: */ true /* :matches */) as matched, count(*) as looked_at
from (
  select w.last_error
  from /* schema */riverui_dead_job w
  where true /* of_kind */ /* of_queue */ /* cursor */
  order by w.died_at desc, w.id desc
  limit :window::bigint
) d;

-- part: dead_job_matches (dead_job_list.matches)
position(lower(:error::text) in lower(d.last_error)) > 0;

-- part: dead_job_of_kind (dead_job_list.of_kind)
and w.kind = :kind::text;

-- part: dead_job_of_queue (dead_job_list.of_queue)
and w.queue = :queue::text;

-- part: dead_job_cursor (dead_job_list.cursor)
and (w.died_at, w.id) < (:after_at::timestamptz, :after_id::bigint);

-- part: dead_job_list_columns (dead_job_list.columns)
j.id, j.state, j.attempt, j.max_attempts, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at, j.priority,
  case when pg_column_size(j.args) <= 2000 then left(j.args::text, :preview::int + 1) end as args_preview,
  j.kind, j.queue, left(j.last_error, :preview::int) as last_error;

-- part: dead_job_table (job_get.table)
/* schema */riverui_dead_job;

-- part: dead_job_text_table (job_text_get.table)
/* schema */riverui_dead_job j;

-- name: dead_job_name_list
-- Kinds and queues, found by index: one step from each name to the next. In the collation "C" lower() changes only
-- ASCII letters.
with recursive kinds as (
  (select d.kind as name from /* schema */riverui_dead_job d order by d.kind limit 1)
  union all
  select (select d.kind from /* schema */riverui_dead_job d where d.kind > k.name order by d.kind limit 1)
  from kinds k
  where k.name is not null
),
queues as (
  (select d.queue as name from /* schema */riverui_dead_job d order by d.queue limit 1)
  union all
  select (select d.queue from /* schema */riverui_dead_job d where d.queue > q.name order by d.queue limit 1)
  from queues q
  where q.name is not null
)
(
  select 'kind' as what, k.name as name
  from kinds k
  where lower(left(k.name, length(:prefix::text)) collate "C") = lower(:prefix::text collate "C")
    and k.name <> all(:exclude::text[])
  limit :limit::bigint
)
union all
(
  select 'queue' as what, q.name as name
  from queues q
  where lower(left(q.name, length(:prefix::text)) collate "C") = lower(:prefix::text collate "C")
    and q.name <> all(:exclude::text[])
  limit :limit::bigint
);

-- name: dead_job_select
select j.died_at, j.reason, null::text as deleted_by, /* columns: */ j.id /* :columns */
from /* schema */riverui_dead_job j
where true /* terms */
order by j.id desc
limit :limit::bigint;

-- name: dead_job_row_get
select j.died_at, j.reason, /* columns: */ j.id /* :columns */
from /* schema */riverui_dead_job j
where j.id = :id::bigint;

-- name: dead_job_death
select d.died_at, d.reason,
  case when d.reason = 'deleted' then left(d.metadata ->> 'riverui:deleted_by', 200) end as deleted_by
from /* schema */riverui_dead_job d
where d.id = :id::bigint;

-- part: dead_job_text (job_text_piece.text)
select case :field::text
    when 'args' then d.args::text
    when 'errors' then coalesce(to_jsonb(d.errors), '[]')::text
    when 'metadata' then d.metadata::text
    when 'output' then (d.metadata -> 'output')::text
    when 'job' then jsonb_build_object(
      'id', d.id, 'args', d.args, 'attempt', d.attempt, 'attempted_at', d.attempted_at,
      'attempted_by', d.attempted_by, 'created_at', d.created_at, 'died_at', d.died_at, 'errors', d.errors,
      'finalized_at', d.finalized_at, 'kind', d.kind, 'max_attempts', d.max_attempts, 'metadata', d.metadata,
      'priority', d.priority, 'queue', d.queue, 'reason', d.reason, 'scheduled_at', d.scheduled_at, 'state', d.state,
      'tags', d.tags, 'unique_key', encode(d.unique_key, 'hex'), 'unique_states', d.unique_states::text
    )::text
  end as text, d.xmin::text as version
from /* schema */riverui_dead_job d
where d.id = :id::bigint;

-- name: dead_job_restore_many
-- The job keeps its id, so that links, logs and other jobs that name it stay valid.
with asked as (
  select distinct a.id from unnest(:ids::bigint[]) as a (id)
),
locked as materialized (
  select d.id from /* schema */riverui_dead_job d
  where d.id = any(:ids::bigint[])
  order by d.id
  for update skip locked
),
back as (
  insert into /* schema */river_job (
    id, args, attempt, created_at, finalized_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state,
    tags, unique_key, unique_states
  )
  select d.id, d.args, 0, d.created_at, coalesce(d.finalized_at, now()), d.kind, d.max_attempts,
    case when jsonb_typeof(d.metadata) = 'object' then d.metadata - 'riverui:deleted_by' else d.metadata end,
    d.priority, d.queue, d.scheduled_at, 'discarded'::/* schema */river_job_state, d.tags, d.unique_key,
    d.unique_states
  from locked l
  join /* schema */riverui_dead_job d on d.id = l.id
  order by d.id
  on conflict do nothing
  returning id
),
gone as (
  delete from /* schema */riverui_dead_job d
  where d.id in (select b.id from back b)
)
select a.id,
  case
    when b.id is not null then 'changed'
    when l.id is not null then 'unique_conflict'
    when exists (select from /* schema */riverui_dead_job d where d.id = a.id) then 'locked'
    else 'not_found'
  end as outcome
from asked a
left join locked l on l.id = a.id
left join back b on b.id = a.id
order by a.id;

-- name: dead_job_delete_many
with asked as (
  select distinct a.id from unnest(:ids::bigint[]) as a (id)
),
gone as (
  delete from /* schema */riverui_dead_job d
  where d.id in (
    select l.id from /* schema */riverui_dead_job l
    where l.id = any(:ids::bigint[])
    order by l.id
    for update skip locked
  )
  returning d.id
)
select a.id,
  case
    when g.id is not null then 'changed'
    when exists (select from /* schema */riverui_dead_job d where d.id = a.id) then 'locked'
    else 'not_found'
  end as outcome
from asked a
left join gone g on g.id = a.id
order by a.id;

-- name: dead_job_delete_before
delete from /* schema */riverui_dead_job d
where d.id = any(array(
  select o.id
  from /* schema */riverui_dead_job o
  where o.died_at < :before::timestamptz
  order by o.died_at, o.id
  limit :limit::bigint
))
returning d.id;
