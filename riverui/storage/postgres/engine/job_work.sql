-- The workers' operations on jobs: fetch, finish, read.

-- part: job_columns (job_row_get.columns)
-- The columns of a whole job, for select lists of other blocks; also of rows that were selected with it before.
j.id as id, j.state::text as state, j.attempt as attempt, j.max_attempts as max_attempts,
  j.attempted_at as attempted_at, j.created_at as created_at, j.finalized_at as finalized_at,
  j.scheduled_at as scheduled_at, j.priority as priority,
  j.args::text as args, j.attempted_by as attempted_by, j.errors::text[] as errors, j.kind as kind,
  j.metadata::text as metadata, j.queue as queue, j.tags::text[] as tags, j.unique_key as unique_key,
  j.unique_states::int as unique_states;

-- part: job_attempted_by (job_begin.attempted_by)
-- The workers of a job as an array that can be appended to. A nested one, or one with another lower bound, is made flat
-- by way of a text: a subquery would slow every fetch.
case
    when array_ndims(j.attempted_by) > 1 or array_lower(j.attempted_by, 1) <> 1
      then string_to_array(array_to_string(j.attempted_by, chr(31)), chr(31))
    when array_length(j.attempted_by, 1) >= :max_attempted_by::int
      then j.attempted_by[array_length(j.attempted_by, 1) + 2 - :max_attempted_by::int :]
    else j.attempted_by
  end;

-- part: job_errors (job_set_state_many.errors)
-- The errors of a job as an array that can be appended to.
case
    when array_ndims(j.errors) > 1 or array_lower(j.errors, 1) <> 1
      then array(select u.error from unnest(j.errors) as u (error))
    else j.errors
  end;

-- part: job_metadata (job_update.metadata)
-- The metadata of a job as an object that another can be merged into; null if it is neither an object nor null, and
-- stays unchanged.
case jsonb_typeof(j.metadata) when 'object' then j.metadata when 'null' then '{}'::jsonb end;

-- name: job_get_available
-- River: JobGetAvailable. Attempts are counted up to a smallint's limit. Values that the caller knows, and usual ones,
-- are not returned. The comparison of kinds is written so that only the fetching index serves it, whatever the
-- statistics say.
with locked as materialized (
  select j.id
  from /* jobs: */ /* schema */river_job j
  /* which: */
  where j.state = 'available' and j.queue = :queue::text and j.scheduled_at <= coalesce(:now::timestamptz, now())
    /* kinds: */ and (j.kind = any(:kinds::text[])) is true /* :kinds */
    /* alike */
    /* excepted: */ and j.id <> all(:except_ids::bigint[]) /* :excepted */
  order by j.priority, j.scheduled_at, j.id
  limit :limit::int
  /* :which */
  for update skip locked
  /* :jobs */
)
update /* schema */river_job j
set state = 'running',
  attempt = least(j.attempt + 1, 32767),
  attempted_at = coalesce(:now::timestamptz, now()),
  attempted_by = array_append(/* attempted_by: */ j.attempted_by /* :attempted_by */, :client_id::text)
where j.id = any(array(select l.id from locked l))
returning j.id, j.attempt, j.max_attempts, j.attempted_at, j.created_at, j.scheduled_at, j.priority,
  j.args::text as args, case when array_length(j.attempted_by, 1) > 1 then j.attempted_by end as attempted_by,
  case when array_length(j.errors, 1) > 0 then j.errors::text[] end as errors, j.kind, j.metadata::text as metadata,
  case when array_length(j.tags, 1) > 0 then j.tags::text[] end as tags, j.unique_key,
  j.unique_states::int as unique_states;

-- part: job_after (job_get_available.jobs)
-- Begins at a place in each priority, whatever number of index entries of removed row versions stands before it. The
-- loop reads one priority after the other, in the order in which jobs are fetched, and ends with the window.
unnest(:after_at::timestamptz[], :after_ids::bigint[]) with ordinality as p (scheduled_at, id, priority)
  cross join lateral (
    select j.id, j.kind, j.args, j.priority, j.scheduled_at
    from /* schema */river_job j
    where j.state = 'available' and j.queue = :queue::text and j.priority = p.priority::smallint
      and (j.scheduled_at, j.id) > (coalesce(p.scheduled_at, '-infinity'), p.id)
      and j.scheduled_at <= coalesce(:now::timestamptz, now())
      /* kinds: */ and (j.kind = any(:kinds::text[])) is true /* :kinds */
      /* excepted: */ and j.id <> all(:except_ids::bigint[]) /* :excepted */
    order by j.scheduled_at, j.id
    limit :window::bigint
    /* locked */
  ) j
  limit :window::bigint;

-- part: job_locked (job_after.locked)
for update skip locked;

-- part: job_claimed (job_get_available.which)
-- Those of some jobs that are still available.
where j.id = any(:ids::bigint[]) and (j.state = 'available') is true and j.queue = :queue::text;

-- part: job_fetch_alike (job_get_available.alike)
-- Only jobs that fit into a batch, among the first ones of the queue: otherwise all of a backlog might be read for a
-- few. Some more than the limit, as other clients may take the first ones meanwhile.
and j.id = any(array(
      select f.id
      from (
        select j.id, j.kind, j.args
        from /* jobs: */ /* schema */river_job j
        where j.state = 'available' and j.queue = :queue::text and j.scheduled_at <= coalesce(:now::timestamptz, now())
          /* kinds: */ and (j.kind = any(:kinds::text[])) is true /* :kinds */
          /* excepted: */ and j.id <> all(:except_ids::bigint[]) /* :excepted */
        order by j.priority, j.scheduled_at, j.id
        limit :window::bigint
        /* :jobs */
      ) f
      where f.kind = :alike_kind::text
        /* alike_args */
      limit 4 * :limit::int
    ));

-- part: job_fetch_alike_args (job_fetch_alike.alike_args)
and f.args = :alike_args::jsonb;

-- part: job_fetch_alike_keys (job_fetch_alike.alike_args)
and not exists (
          select from unnest(:alike_keys::text[]) as u (key)
          where f.args -> u.key is distinct from :alike_args::jsonb -> u.key
        );

-- name: job_first_available
-- The job that job_get_available would take first.
select j.id
from /* schema */river_job j
where j.state = 'available' and j.queue = :queue::text and j.scheduled_at <= coalesce(:now::timestamptz, now())
  /* kinds: */ and (j.kind = any(:kinds::text[])) is true /* :kinds */
  and j.id <> all(:except_ids::bigint[])
order by j.priority, j.scheduled_at, j.id
limit 1
for update skip locked;

-- name: job_begin
-- What job_get_available does, to one job that need not be due.
update /* schema */river_job j
set state = 'running',
  attempt = least(j.attempt + 1, 32767),
  attempted_at = :now::timestamptz,
  attempted_by = array_append(/* attempted_by: */ j.attempted_by /* :attempted_by */, :client_id::text)
where j.id = :id::bigint and j.finalized_at is null
returning /* columns: */ j.id /* :columns */;

-- name: job_complete_many
-- River: JobSetStateIfRunningMany for jobs with no other changes. The ids are in order, so that each job's time is
-- found by its place among them, which costs less than a join. The comparison of the state is written so that no plan
-- searches all running jobs.
-- Slots: finalized_at (the same for all), attempts (only those still at the attempt that succeeded).
update /* schema */river_job j
set state = 'completed',
  finalized_at =
    /* finalized_at: */ (:finalized_at::timestamptz[])[width_bucket(j.id, :ids::bigint[])] /* :finalized_at */
where j.id = any(:ids::bigint[]) and (j.state = 'running') is true /* attempts */
returning j.id;

-- name: job_delete_completed_many
-- The same for ephemeral jobs, which are removed.
-- Slot: attempts, as above.
delete from /* schema */river_job j
where j.id = any(:ids::bigint[]) and (j.state = 'running') is true /* attempts */
returning j.id;

-- part: job_finalized_at_once (job_complete_many.finalized_at)
:finalized_at::timestamptz;

-- part: job_complete_of_attempt (job_complete_many.attempts)
-- All at the same attempt, as most are.
and j.attempt = :attempts::int;

-- part: job_complete_of_attempts (job_complete_many.attempts)
and j.attempt = (:attempts::int[])[width_bucket(j.id, :ids::bigint[])];

-- name: job_set_state_many
-- River: JobSetStateIfRunningMany. A job with a request to cancel is not worked again, and one that is at another
-- attempt by now stays unchanged.
with given as materialized (
  select u.id, u.state::/* schema */river_job_state as state, u.finalized_at, u.attempt, u.error, u.scheduled_at,
    u.metadata, u.of_attempt, u.attempted_at
  from unnest(
    :ids::bigint[], :states::text[], :finalized_at::timestamptz[], :attempts::int[], :errors::jsonb[],
    :scheduled_at::timestamptz[], :metadata::jsonb[], :of_attempts::int[], :attempted_at::timestamptz[]
  ) as u (id, state, finalized_at, attempt, error, scheduled_at, metadata, of_attempt, attempted_at)
),
changed as (
  update /* schema */river_job j
  set state = case
      when j.state <> 'running' then j.state
      when g.state in ('available', 'retryable', 'scheduled')
        and j.metadata -> 'cancel_attempted_at' is not null then 'cancelled'
      else g.state
    end,
    finalized_at = case
      when j.state <> 'running' then j.finalized_at
      when g.state in ('available', 'retryable', 'scheduled')
        and j.metadata -> 'cancel_attempted_at' is not null then now()
      else coalesce(g.finalized_at, j.finalized_at)
    end,
    attempt = case
      when j.state <> 'running' then j.attempt
      when g.state in ('available', 'retryable', 'scheduled')
        and j.metadata -> 'cancel_attempted_at' is not null then j.attempt
      else coalesce(g.attempt, j.attempt)
    end,
    scheduled_at = case
      when j.state <> 'running' then j.scheduled_at
      when g.state in ('available', 'retryable', 'scheduled')
        and j.metadata -> 'cancel_attempted_at' is not null then j.scheduled_at
      else coalesce(g.scheduled_at, j.scheduled_at)
    end,
    errors = case
      when j.state = 'running' and g.error is not null
        then array_append(/* errors: */ j.errors /* :errors */, g.error)
      else j.errors
    end,
    metadata = coalesce(/* metadata: */ j.metadata /* :metadata */ || g.metadata, j.metadata)
  from given g
  where j.id = g.id and (j.state = 'running' or g.metadata is not null)
    and (g.of_attempt is null or j.attempt = g.of_attempt)
    and (g.attempted_at is null or j.attempted_at = g.attempted_at)
  returning /* columns: */ j.id /* :columns */
)
select /* columns: */ j.id /* :columns */
from changed j
union all
select /* columns: */ j.id /* :columns */
from /* schema */river_job j
join given g on g.id = j.id
where not exists (select from changed x where x.id = j.id)
order by id;

-- name: job_delete_ended_many
-- Removes ephemeral jobs with other changes and returns their rows as they were. Jobs that are not running, or at
-- another attempt by now, stay unchanged.
with given as materialized (
  select u.id, u.of_attempt from unnest(:ids::bigint[], :of_attempts::int[]) as u (id, of_attempt)
),
removed as (
  delete from /* schema */river_job j
  using given g
  where j.id = g.id and (j.state = 'running') is true and (g.of_attempt is null or j.attempt = g.of_attempt)
  returning /* columns: */ j.id /* :columns */
)
select /* columns: */ j.id /* :columns */
from removed j
union all
select /* columns: */ j.id /* :columns */
from /* schema */river_job j
join given g on g.id = j.id
where not exists (select from removed x where x.id = j.id)
order by id;

-- name: job_row_get
select /* columns: */ j.id /* :columns */ from /* schema */river_job j where j.id = :id::bigint;

-- name: job_update
-- River: JobUpdate.
update /* schema */river_job j
set metadata = coalesce(/* metadata: */ j.metadata /* :metadata */ || :metadata::jsonb, j.metadata)
where j.id = :id::bigint
returning /* columns: */ j.id /* :columns */;

-- name: job_running_list
-- The last entry of `attempted_by` is the client that works the job. Running jobs are few: as many as clients have
-- slots. Some times, such as infinity, cannot be subtracted.
select j.id, j.attempted_at, extract(epoch from clock_timestamp() - j.attempted_at)::float8 as seconds
from /* schema */river_job j
where j.state = 'running' and isfinite(j.attempted_at)
  and j.attempted_by[array_upper(j.attempted_by, 1)] = :client_id::text
order by j.id;

-- name: job_cancel_requested
-- River: JobGetCancelRequested.
select j.id
from /* schema */river_job j
where j.id = any(:ids::bigint[]) and j.metadata -> 'cancel_attempted_at' is not null and (j.state = 'running') is true
order by j.id;
