-- Insert jobs and notify the workers, in one statement.

-- name: job_insert_many
-- River: JobInsertFastMany and PGNotifyMany. Each parameter is an array, one element a job; if all jobs have the
-- same value it has only that one, and unnest pads with nulls. The rows are in the order of the jobs.
-- A job whose unique key is taken returns the row that has it, unchanged; such rows are known by their xmax.
-- Slots: source, always filled: job_insert_each or job_insert_alike; rows, filled if several jobs are unique;
-- unique_columns and conflict, emptied if none is, and existing; notify, emptied without notifications.
with inserted as (
  insert into /* schema */river_job
  /* rows: */
  (
    args, created_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags
    /* unique_columns: */, unique_key, unique_states /* :unique_columns */
  )
  /* source: */
  select null::jsonb, null::timestamptz, null::text, null::smallint, null::jsonb, null::smallint, null::text,
    null::timestamptz, null::/* schema */river_job_state, null::text[], null::bytea, null::bit(8)
  /* :source */
  /* :rows */
  /* conflict: */
  on conflict (unique_key)
    where unique_key is not null and unique_states is not null
      and /* schema */river_job_state_in_bitmask(unique_states, state)
  do update set kind = river_job.kind
  /* :conflict */
  returning id,
    /* existing: */
    case when xmax <> 0 then jsonb_build_object(
      'id', id, 'state', state, 'attempt', attempt, 'max_attempts', max_attempts, 'attempted_at', attempted_at,
      'created_at', created_at, 'finalized_at', finalized_at, 'scheduled_at', scheduled_at, 'priority', priority,
      'args', args::text, 'attempted_by', attempted_by, 'errors', errors::text[], 'kind', kind,
      'metadata', metadata::text, 'queue', queue, 'tags', tags, 'unique_key', encode(unique_key, 'hex'),
      'unique_states', unique_states::int
    )::text end
    /* :existing */
    as existing
)
select i.id, i.existing
from inserted i
/* notify: */
where (
  select count(pg_notify(concat(coalesce(:schema::text, current_schema()), '.river_insert'), p.payload))
  from unnest(:payloads::text[]) as p (payload)
) is not null
/* :notify */;

-- part: job_insert_no_existing (job_insert_many.existing)
null::text;

-- part: job_insert_by_key (job_insert_many.rows)
-- Inserts the jobs in the order of their keys, so that two inserts of the same keys never deadlock. Their ids are
-- taken before, in the order of the jobs.
(
    args, created_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags, unique_key,
    unique_states, id
  )
  select s.args, s.created_at, s.kind, s.max_attempts, s.metadata, s.priority, s.queue, s.scheduled_at, s.state, s.tags,
    s.unique_key, s.unique_states, s.id
  from (
    select q.args, q.created_at, q.kind, q.max_attempts, q.metadata, q.priority, q.queue, q.scheduled_at, q.state,
      q.tags, q.unique_key, q.unique_states,
      nextval((select pg_get_serial_sequence('/* schema */river_job', 'id'))::regclass) as id
    from (
      /* source: */
      select null::jsonb, null::timestamptz, null::text, null::smallint, null::jsonb, null::smallint, null::text,
        null::timestamptz, null::/* schema */river_job_state, null::text[], null::bytea, null::bit(8)
      /* :source */
    ) as q (
      args, created_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags, unique_key,
      unique_states
    )
    offset 0
  ) s
  order by s.unique_key, s.id;

-- part: job_insert_each (job_insert_many.source)
-- The source for jobs that differ in more than their args and keys.
select coalesce(u.args::jsonb, g.args_1), coalesce(u.created_at, g.created_at[1]), coalesce(u.kind, g.kind[1]),
  coalesce(u.max_attempts, g.max_attempts[1]), coalesce(u.metadata::jsonb, g.metadata_1),
  coalesce(u.priority, g.priority[1]), coalesce(u.queue, g.queue[1]), coalesce(u.scheduled_at, g.scheduled_at[1]),
  coalesce(u.state::/* schema */river_job_state, g.state_1), coalesce(u.tags::text[], g.tags_1)
  /* unique_values: */
  , u.unique_key, nullif(coalesce(u.unique_states, g.unique_states[1]), 0)::bit(8)
  /* :unique_values */
from (
  -- Values that are the same for all are read once; without the offsets they would be read for each job.
  select f.args, f.created_at, f.kind, f.max_attempts, f.metadata, f.priority, f.queue, f.scheduled_at, f.state,
    f.tags, f.unique_key, f.unique_states, f.places,
    f.args[1]::jsonb as args_1, f.metadata[1]::jsonb as metadata_1,
    f.state[1]::/* schema */river_job_state as state_1, f.tags[1]::text[] as tags_1
  from (
    select :args::text[] as args, :created_at::timestamptz[] as created_at, :kind::text[] as kind,
      :max_attempts::smallint[] as max_attempts, :metadata::text[] as metadata, :priority::smallint[] as priority,
      :queue::text[] as queue, :scheduled_at::timestamptz[] as scheduled_at, :state::text[] as state,
      :tags::text[] as tags, :unique_key::bytea[] as unique_key, :unique_states::int[] as unique_states,
      array_fill(null::int, array[:size::int]) as places
    offset 0
  ) f
  offset 0
) g
cross join lateral unnest(
  g.args, g.created_at, g.kind, g.max_attempts, g.metadata, g.priority, g.queue, g.scheduled_at, g.state, g.tags,
  g.unique_key, g.unique_states, g.places
) as u (
  args, created_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags, unique_key,
  unique_states, place
);

-- part: job_insert_alike (job_insert_many.source)
-- The source for jobs that differ in their args and keys only, or a single job: cheaper to plan and to run.
select u.args::jsonb, :created_at::timestamptz, :kind::text, :max_attempts::smallint, :metadata::jsonb,
    :priority::smallint, :queue::text, :scheduled_at::timestamptz, :state::text::/* schema */river_job_state,
    :tags::text[]
    /* unique_values: */, u.unique_key, nullif(:unique_states::int, 0)::bit(8) /* :unique_values */
  from unnest(:args::text[], :unique_key::bytea[]) as u (args, unique_key);

-- name: job_insert_many_fast
-- River: JobInsertFastManyNoReturning. Rows in COPY's text format.
copy /* schema */river_job (
  args, created_at, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags
  /* unique_columns: */, unique_key, unique_states /* :unique_columns */
) from stdin;

-- name: job_restore_many
-- Whole jobs, as JSON. Args and metadata are text in it, so that their numbers stay exact.
insert into /* schema */river_job (
  id, args, attempt, attempted_at, attempted_by, created_at, errors, finalized_at, kind, max_attempts, metadata,
  priority, queue, scheduled_at, state, tags, unique_key, unique_states
)
select (r.job ->> 'id')::bigint, (r.job ->> 'args')::jsonb, (r.job ->> 'attempt')::smallint,
  (r.job ->> 'attempted_at')::timestamptz,
  (select array_agg(n.name order by n.place)
    from jsonb_array_elements_text(r.job -> 'attempted_by') with ordinality as n (name, place)),
  (r.job ->> 'created_at')::timestamptz,
  (select array_agg(e.error order by e.place)
    from jsonb_array_elements(r.job -> 'errors') with ordinality as e (error, place)),
  (r.job ->> 'finalized_at')::timestamptz, r.job ->> 'kind', (r.job ->> 'max_attempts')::smallint,
  (r.job ->> 'metadata')::jsonb, (r.job ->> 'priority')::smallint, r.job ->> 'queue',
  (r.job ->> 'scheduled_at')::timestamptz, (r.job ->> 'state')::/* schema */river_job_state,
  array(select jsonb_array_elements_text(r.job -> 'tags')), decode(r.job ->> 'unique_key', 'hex'),
  (r.job ->> 'unique_states')::int::bit(8)
from (select t.text::jsonb as job from unnest(:jobs::text[]) as t (text)) r;

-- name: job_restore_sequence
select setval(
  pg_get_serial_sequence('/* schema */river_job', 'id'), (select max(j.id) from /* schema */river_job j)
);
