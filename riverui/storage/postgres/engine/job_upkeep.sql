-- The leader's operations on jobs.

-- name: job_schedule
-- River: JobSchedule. River reads the index entries of every scheduled and retryable job; this reads only those of due
-- jobs, and one more for each queue and priority: the fetching index is in order of time within these.
-- A job that another transaction holds waits for the next round.
-- A unique job without a conflict becomes available. If another job holds its key, or an earlier job of this round has
-- the same key, it is discarded; and as in River, every job of this round with a key that one of them holds and another
-- one wants.
with recursive pair as (
  select f.state, f.queue, f.priority
  from unnest('{retryable,scheduled}'::/* schema */river_job_state[]) as s (state)
  cross join lateral (
    select j.state, j.queue, j.priority from /* schema */river_job j
    where j.state = s.state
    order by j.queue, j.priority limit 1
  ) f
  union all
  select f.state, f.queue, f.priority
  from pair p
  cross join lateral (
    select j.state, j.queue, j.priority from /* schema */river_job j
    where j.state = p.state and (j.queue, j.priority) > (p.queue, p.priority)
    order by j.queue, j.priority limit 1
  ) f
),
due as (
  select d.id
  from pair p
  cross join lateral (
    select j.id, j.scheduled_at from /* schema */river_job j
    where j.state = p.state and j.queue = p.queue and j.priority = p.priority and j.scheduled_at <= :now::timestamptz
      /* excepted: */ and j.id <> all(:except_ids::bigint[]) /* :excepted */
    order by j.scheduled_at, j.id
    limit :limit::bigint
  ) d
  order by p.priority, d.scheduled_at, d.id
  limit :limit::bigint
)
/* moved: */,
locked as materialized (
  select j.id, j.priority, j.queue, j.scheduled_at, j.unique_key,
    j.unique_key is not null and j.unique_states is not null as is_unique
  from /* schema */river_job j
  where j.id = any(array(select d.id from due d))
    and j.state in ('retryable', 'scheduled') and j.scheduled_at <= :now::timestamptz
  order by j.id
  for update skip locked
),
ranked as materialized (
  select l.id, l.queue, l.scheduled_at, l.is_unique, l.unique_key,
    row_number() over (partition by l.unique_key order by l.priority, l.scheduled_at, l.id) as place
  from locked l
),
taken as materialized (
  select distinct r.unique_key
  from ranked r
  join /* schema */river_job j on j.unique_key = r.unique_key and j.id <> r.id
  where r.unique_key is not null
    and j.unique_key is not null and j.unique_states is not null
    and /* schema */river_job_state_in_bitmask(j.unique_states, j.state)
),
decided as materialized (
  select r.id, r.queue, r.scheduled_at,
    r.is_unique and (r.place > 1 or exists (select from taken t where t.unique_key = r.unique_key)) as discarded
  from ranked r
),
changed as (
  update /* schema */river_job j
  set state = case when d.discarded then 'discarded' else 'available' end::/* schema */river_job_state,
    finalized_at = case when d.discarded then :now::timestamptz else j.finalized_at end,
    metadata = case
      when d.discarded
        then coalesce(
          /* metadata: */ j.metadata /* :metadata */ || '{"unique_key_conflict": "scheduler_discarded"}'::jsonb,
          j.metadata
        )
      else j.metadata
    end,
    -- If the key counts in discarded jobs too, this one has to release it: another job has it.
    unique_states = case when d.discarded then set_bit(j.unique_states, 4, 0) else j.unique_states end
  from decided d
  where j.id = d.id
  returning j.id, d.queue, d.scheduled_at, d.discarded
)
select c.id, c.queue, c.scheduled_at, c.discarded as conflict_discarded from changed c order by c.id
/* :moved */;

-- part: job_first_due (job_schedule.moved)
-- Ends job_schedule after finding the jobs that it would move.
select d.id from due d;

-- name: job_get_stuck
-- River: JobGetStuck. Running jobs are few: they are found first and then sorted, instead of a scan of every job.
with running as materialized (
  select j.id
  from /* schema */river_job j
  where j.state = 'running' and j.id > :after_id::bigint and j.attempted_at < :attempted_before::timestamptz
),
stuck as materialized (
  select r.id from running r order by r.id limit :limit::bigint
)
/* rows: */
select /* columns: */ j.id /* :columns */
from /* schema */river_job j
where j.id = any(array(select s.id from stuck s)) and (j.state = 'running') is true
order by j.id
/* :rows */;

-- part: job_first_stuck (job_get_stuck.rows)
-- Ends job_get_stuck after finding the ids.
select s.id from stuck s;

-- name: job_rescue_many
-- River: JobRescueMany. The conditions use both sides of the join, so that no plan begins with all running jobs.
-- A job that another transaction holds, perhaps to complete it, waits for the next round.
with free as materialized (
  select j.id from /* schema */river_job j where j.id = any(:ids::bigint[]) order by j.id for update skip locked
)
update /* schema */river_job j
set state = u.state::/* schema */river_job_state,
  errors = array_append(/* errors: */ j.errors /* :errors */, u.error),
  finalized_at = u.finalized_at,
  scheduled_at = coalesce(u.scheduled_at, j.scheduled_at),
  metadata = coalesce(
    /* metadata: */ j.metadata /* :metadata */ || jsonb_build_object(
      'river:rescue_count',
      case
        when jsonb_typeof(j.metadata -> 'river:rescue_count') = 'number'
          and j.metadata ->> 'river:rescue_count' ~ '^-?\d{1,9}$'
          then (j.metadata ->> 'river:rescue_count')::int + 1
        else 1
      end
    ),
    j.metadata
  )
from unnest(
  :ids::bigint[], :states::text[], :errors::jsonb[], :scheduled_at::timestamptz[], :finalized_at::timestamptz[]
) as u (id, state, error, scheduled_at, finalized_at)
where j.id = u.id and u.id in (select f.id from free f)
  and case when u.id is not null then j.state = 'running' and j.attempted_at < :attempted_before::timestamptz end
returning j.id;

-- name: job_delete_before
-- River: JobDeleteBefore. Deletes the longest finished first, where River takes the lowest ids: so a round reads no
-- more rows than it deletes, and all rounds together delete the same. Jobs retried meanwhile stay.
-- Slots: behind (empty unless some rows have been seen), held (workflow_holds_job), deleted, kept.
with old as materialized (
  select o.id, s.state, o.finalized_at
  from unnest(
    '{cancelled,completed,discarded}'::/* schema */river_job_state[],
    array[:cancelled_before::timestamptz, :completed_before::timestamptz, :discarded_before::timestamptz]
  ) as s (state, horizon)
  cross join lateral (
    select j.id, j.finalized_at from /* schema */river_job j
    where j.state = s.state and j.finalized_at is not null and j.finalized_at < s.horizon
      /* behind: */ and j.finalized_at > case s.state
        when 'cancelled' then coalesce(:cancelled_behind::timestamptz, '-infinity')
        when 'completed' then coalesce(:completed_behind::timestamptz, '-infinity')
        when 'discarded' then coalesce(:discarded_behind::timestamptz, '-infinity')
      end /* :behind */
      /* queues: */ and j.queue <> all(:queues_excluded::text[]) /* :queues */
      /* only_queues: */ and j.queue = any(:queues_included::text[]) /* :only_queues */
      /* excepted: */ and j.id <> all(:except_ids::bigint[]) /* :excepted */
    order by j.finalized_at
    limit :limit::bigint
  ) o
  limit :limit::bigint
)
/* deleted: */,
gone as (
  delete from /* schema */river_job j
  where j.id = any(array(select o.id from old o))
    and j.finalized_at < case j.state
      when 'cancelled' then :cancelled_before::timestamptz
      when 'completed' then :completed_before::timestamptz
      when 'discarded' then :discarded_before::timestamptz
    end
    /* held: */ /* :held */
  /* kept: */
  returning j.id
)
select count(*) as deleted from gone
/* :kept */
/* :deleted */;

-- part: job_first_old (job_delete_before.deleted)
-- Ends job_delete_before after finding the jobs that it would delete.
select o.id from old o;
