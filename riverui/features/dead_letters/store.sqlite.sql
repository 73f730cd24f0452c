-- Dead letters: how discarded jobs are moved there and restored.

-- part: dead_job_moved (job_delete_before.kept)
-- Keeps the discarded ones of the jobs that are about to be removed.
insert into riverui_dead_job (
  id, unique_key, unique_states, attempted_at, created_at, died_at, finalized_at, scheduled_at, attempt, max_attempts,
  priority, kind, queue, state, last_error, args, attempted_by, errors, metadata, tags
)
select id, unique_key, unique_states, attempted_at, created_at, :now, finalized_at, scheduled_at, attempt,
  max_attempts, priority, kind, queue, state,
  substr(
    coalesce(
      iif(
        json_valid(json_text(errors)),
        coalesce(json_text(errors) ->> '$[#-1].error', json_text(errors) -> '$[#-1]'), null
      ),
      ''
    ), 1, 2000
  ),
  args, attempted_by, errors, metadata, tags
from river_job
where id in (select value from json_each(:ids)) and state = 'discarded';

-- name: dead_job_keep_many
-- Copies jobs that the transaction is about to delete. All get the same time, by which an undo finds them.
insert into riverui_dead_job (
  id, unique_key, unique_states, attempted_at, created_at, died_at, finalized_at, scheduled_at, attempt, max_attempts,
  priority, kind, queue, reason, state, last_error, args, attempted_by, errors, metadata, tags
)
select id, unique_key, unique_states, attempted_at, created_at, :now, finalized_at, scheduled_at, attempt,
  max_attempts, priority, kind, queue, 'deleted', state,
  substr(
    coalesce(
      iif(
        json_valid(json_text(errors)),
        coalesce(json_text(errors) ->> '$[#-1].error', json_text(errors) -> '$[#-1]'), null
      ),
      ''
    ), 1, 2000
  ),
  args, attempted_by, errors,
  iif(
    :user <> '' and json_valid(json_text(metadata)),
    jsonb(json_set(json_text(metadata), '$."riverui:deleted_by"', :user)), metadata
  ),
  tags
from river_job
where id in (select value from json_each(:ids)) and state <> 'running' /* wait */
on conflict (id) do nothing;
select a.value as id, :now as "died_at:time",
  case
    when d.died_at = :now and d.reason = 'deleted' then 'changed'
    when j.state = 'running' then 'running'
    when j.id is not null then 'kept'
    else 'not_found'
  end as outcome
from json_each(:ids) a
left join river_job j on j.id = a.value
left join riverui_dead_job d on d.id = j.id
order by a.value;

-- part: dead_job_keep_others (dead_job_keep_many.wait)
-- No row is locked here.
and true;

-- name: dead_job_deleted_list
select id
from riverui_dead_job
where died_at = :died_at and reason = 'deleted'
  and coalesce(valid_json(metadata) ->> '$."riverui:deleted_by"', '') = :user
order by id
limit :limit;

-- name: dead_job_undo_many
-- As on Postgres. First those whose id a job has are marked: they stay.
update riverui_dead_job
set state = '!' || state
where id in (select value from json_each(:ids)) and reason = 'deleted' and id in (select id from river_job);
insert into river_job (
  id, args, attempt, attempted_at, attempted_by, created_at, errors, finalized_at, kind, max_attempts, metadata,
  priority, queue, scheduled_at, state, tags, unique_key, unique_states
)
select d.id, d.args, d.attempt, d.attempted_at, d.attempted_by, d.created_at, d.errors,
  iif(d.waits and d.in_line, :now, d.finalized_at), d.kind, d.max_attempts,
  iif(
    json_valid(json_text(d.metadata)), jsonb(json_remove(json_text(d.metadata), '$."riverui:deleted_by"')), d.metadata
  ), d.priority, d.queue, d.scheduled_at,
  iif(d.waits and d.in_line, 'discarded', d.state), d.tags, d.unique_key, d.unique_states
from (
  select *, state in ('available', 'pending', 'retryable', 'scheduled') as waits,
    valid_json(metadata) ->> '$.seq_key' is not null as in_line,
    valid_json(metadata) ->> '$.workflow_id' is not null as is_task
  from riverui_dead_job
  where id in (select value from json_each(:ids)) and reason = 'deleted' and state not like '!%'
) d
where not (d.waits and d.is_task)
on conflict do nothing;
insert into river_notification (created_at, payload, topic)
select distinct :now, json_object('queue', j.queue), 'insert'
from river_job j
join riverui_dead_job d on d.id = j.id
where d.id in (select value from json_each(:ids)) and d.reason = 'deleted' and d.state not like '!%'
  and j.state = 'available';
select a.value as id,
  case
    when d.id is null then 'not_found'
    when d.state like '!%' then 'unique_conflict'
    when j.id is not null and d.waits and d.in_line then 'requested'
    when j.id is not null then 'changed'
    when d.waits and d.is_task then 'workflow'
    else 'unique_conflict'
  end as outcome
from json_each(:ids) a
left join (
  select id, state, state in ('available', 'pending', 'retryable', 'scheduled') as waits,
    valid_json(metadata) ->> '$.seq_key' is not null as in_line,
    valid_json(metadata) ->> '$.workflow_id' is not null as is_task
  from riverui_dead_job
  where reason = 'deleted'
) d on d.id = a.value
left join river_job j on j.id = d.id
order by a.value;
delete from riverui_dead_job
where id in (select value from json_each(:ids)) and reason = 'deleted' and state not like '!%'
  and id in (select id from river_job);
update riverui_dead_job
set state = substr(state, 2)
where id in (select value from json_each(:ids)) and state like '!%';

-- name: dead_job_list
-- A search for a text reads a limited number of rows. If it stops at that limit, the last row read is returned as well,
-- to show how far it got.
with looked as materialized (
  select d.id, d.died_at, /* matches: */ 1 /* :matches */ as matched,
    row_number() over (order by d.died_at desc, d.id desc) as place
  from (
    select w.id, w.died_at, w.last_error
    from riverui_dead_job w
    where true /* of_kind */ /* of_queue */ /* cursor */
    order by w.died_at desc, w.id desc
    limit :window
  ) d
),
listed as materialized (
  select id, matched, place from looked where matched or place = :window order by place limit :limit + 1
)
select l.matched as "matched:bool", j.died_at as "died_at:time", j.reason,
  iif(
    j.reason = 'deleted' and length(j.metadata) <= 20000,
    substr(valid_json(j.metadata) ->> '$."riverui:deleted_by"', 1, 200), null
  ) as deleted_by, /* columns: */ j.id /* :columns */
from listed l
join riverui_dead_job j on j.id = l.id
order by l.place;

-- name: dead_job_count
select coalesce(sum(/* matches: */ 1 /* :matches */), 0) as matched, count(*) as looked_at
from (
  select w.last_error
  from riverui_dead_job w
  where true /* of_kind */ /* of_queue */ /* cursor */
  order by w.died_at desc, w.id desc
  limit :window
) d;

-- part: dead_job_matches (dead_job_list.matches)
instr(lower(d.last_error), lower(:error)) > 0;

-- part: dead_job_of_kind (dead_job_list.of_kind)
and w.kind = :kind;

-- part: dead_job_of_queue (dead_job_list.of_queue)
and w.queue = :queue;

-- part: dead_job_cursor (dead_job_list.cursor)
and (w.died_at, w.id) < (:after_at, :after_id);

-- part: dead_job_list_columns (dead_job_list.columns)
j.id, j.state, j.attempt, j.max_attempts, j.attempted_at as "attempted_at:time", j.created_at as "created_at:time",
  j.finalized_at as "finalized_at:time", j.scheduled_at as "scheduled_at:time", j.priority,
  iif(length(j.args) <= 2000, substr(json_text(j.args), 1, :preview + 1), null) as args_preview,
  j.kind, j.queue, substr(j.last_error, 1, :preview) as last_error;

-- part: dead_job_table (job_get.table)
riverui_dead_job;

-- part: dead_job_text_table (job_text_get.table)
riverui_dead_job;

-- name: dead_job_name_list
-- Kinds and queues, found by index: one step from each name to the next. lower() changes only ASCII letters.
with recursive kinds (name) as (
  select min(kind) from riverui_dead_job
  union all
  select (select min(kind) from riverui_dead_job where kind > k.name) from kinds k where k.name is not null
),
queues (name) as (
  select min(queue) from riverui_dead_job
  union all
  select (select min(queue) from riverui_dead_job where queue > q.name) from queues q where q.name is not null
)
select * from (
  select 'kind' as what, name
  from kinds
  where lower(substr(name, 1, length(:prefix))) = lower(:prefix)
    and name not in (select value from json_each(riverui_list(:exclude)))
  limit :limit
)
union all
select * from (
  select 'queue', name
  from queues
  where lower(substr(name, 1, length(:prefix))) = lower(:prefix)
    and name not in (select value from json_each(riverui_list(:exclude)))
  limit :limit
);

-- name: dead_job_select
select j.died_at as "died_at:time", j.reason, null as deleted_by, /* columns: */ j.id /* :columns */
from riverui_dead_job j
where true /* terms */
order by j.id desc
limit :limit;

-- name: dead_job_row_get
select j.died_at as "died_at:time", j.reason, /* columns: */ j.id /* :columns */
from riverui_dead_job j
where j.id = :id;

-- name: dead_job_death
select died_at as "died_at:time", reason,
  iif(reason = 'deleted', substr(valid_json(metadata) ->> '$."riverui:deleted_by"', 1, 200), null) as deleted_by
from riverui_dead_job
where id = :id;

-- part: dead_job_text (job_text_piece.text)
select case :field
    when 'args' then json_text(d.args)
    when 'errors' then coalesce(json_text(d.errors), '[]')
    when 'metadata' then json_text(d.metadata)
    when 'output' then valid_json(d.metadata) -> '$.output'
    when 'job' then json_object(
      'id', d.id, 'args', json(valid_json(d.args)), 'attempt', d.attempt, 'attempted_at', d.attempted_at,
      'attempted_by', json(valid_json(d.attempted_by)), 'created_at', d.created_at, 'died_at', d.died_at,
      'errors', json(valid_json(d.errors)), 'finalized_at', d.finalized_at, 'kind', d.kind,
      'max_attempts', d.max_attempts, 'metadata', json(valid_json(d.metadata)), 'priority', d.priority,
      'queue', d.queue, 'reason', d.reason, 'scheduled_at', d.scheduled_at, 'state', d.state,
      'tags', json(valid_json(d.tags)), 'unique_key', iif(d.unique_key is null, null, lower(hex(d.unique_key))),
      'unique_states', d.unique_states
    )
  end as text, d.died_at as version
from riverui_dead_job d
where d.id = :id;

-- name: dead_job_restore_many
-- The job keeps its id, so that links, logs and other jobs that name it stay valid. Those whose id a job has are marked
-- first: they stay.
update riverui_dead_job
set state = '!' || state
where id in (select value from json_each(:ids)) and id in (select id from river_job);
insert into river_job (
  id, args, attempt, created_at, finalized_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state,
  tags, unique_key, unique_states
)
select id, args, 0, created_at, coalesce(finalized_at, :now), kind, max_attempts,
  iif(
    json_valid(json_text(metadata)), jsonb(json_remove(json_text(metadata), '$."riverui:deleted_by"')), metadata
  ), priority, queue, scheduled_at, 'discarded', tags,
  unique_key, unique_states
from riverui_dead_job
where id in (select value from json_each(:ids)) and state not like '!%'
on conflict do nothing;
select a.value as id,
  case
    when d.id is null then 'not_found'
    when d.state not like '!%' and j.id is not null then 'changed'
    else 'unique_conflict'
  end as outcome
from json_each(:ids) a
left join riverui_dead_job d on d.id = a.value
left join river_job j on j.id = d.id
order by a.value;
delete from riverui_dead_job
where id in (select value from json_each(:ids)) and state not like '!%' and id in (select id from river_job);
update riverui_dead_job
set state = substr(state, 2)
where id in (select value from json_each(:ids)) and state like '!%';

-- name: dead_job_delete_many
select a.value as id, iif(d.id is null, 'not_found', 'changed') as outcome
from json_each(:ids) a
left join riverui_dead_job d on d.id = a.value
order by a.value;
delete from riverui_dead_job where id in (select value from json_each(:ids));

-- name: dead_job_delete_before
delete from riverui_dead_job
where id in (select id from riverui_dead_job where died_at < :before order by died_at, id limit :limit)
returning id;
