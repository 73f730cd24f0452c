-- Jobs with their JSON as text, as much of it as an answer may contain.

-- name: job_text_list
-- The scans of job_list.
with listed as materialized (
  select w.id, w.at, w.matched, w.ended
  from (
    /* scans: */
    select j.id, j.created_at as at, true as matched, false as ended from /* schema */river_job j
    order by j.id limit :limit::bigint + 1
    /* :scans */
  ) w
  order by /* by_time: */ w.at /* desc */, /* :by_time */ w.id /* desc */
  limit :limit::bigint + 1
)
-- The page ends early if its args may be large: their stored size is known without reading them, and compressed ones
-- may decompress to a hundred times as much.
select j.at, j.matched, j.ended, /* columns: */ j.id /* :columns */, j.found,
  /* values: */ null /* :values */::text[] as path_values
from (
  select w.at, w.matched, w.ended, r.id, r.args, r.attempt, r.attempted_at, r.attempted_by, r.created_at,
    r.finalized_at, r.kind, r.max_attempts, r.metadata, r.priority, r.queue, r.scheduled_at, r.state, r.tags,
    count(*) over () as found, row_number() over shown as place,
    sum(pg_column_size(r.args)::bigint * case when pg_column_size(r.args) > 2000 then 100 else 1 end) over (
      shown rows between unbounded preceding and 1 preceding
    ) as unpacked
  from listed w
  join /* schema */river_job r on r.id = w.id
  window shown as (order by /* by_time: */ w.at /* desc */, /* :by_time */ w.id /* desc */)
) j
where coalesce(j.unpacked, 0) <= :unpacked::bigint
order by j.place;

-- part: job_scan_state_id (job_text_list.scans)
-- Jobs of some states by id: River has no index in that order. The page may be complete before the table was read far
-- by id; it is read further if there are many of these jobs, and some were among the first. If that was not enough, all
-- of their entries in River's fetching index are read. The order of that part, which costs nothing, keeps the planner
-- on that index.
(
  with states as materialized (
    select s.state from unnest(:scanned_states::text[]::/* schema */river_job_state[]) as s (state)
  ),
  first as materialized (
    select j.id
    from (
      select /* columns: */ j.id, j.state, j.attempt, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at,
        j.priority, j.args, j.attempted_by, j.errors, j.kind, j.metadata, j.queue, j.tags /* :columns */
      from /* schema */river_job j
      where true /* cursor */
      order by j.id /* desc */
      limit :near_jobs::bigint
    ) j
    where j.state = any(array(select s.state from states s)) /* terms */
    limit :limit::bigint + 1
  ),
  near as materialized (
    select f.id from first f
    union all
    select j.id
    from (
      select /* columns: */ j.id, j.state, j.attempt, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at,
        j.priority, j.args, j.attempted_by, j.errors, j.kind, j.metadata, j.queue, j.tags /* :columns */
      from /* schema */river_job j
      where (select count(*) * :far_jobs::bigint > :near_jobs::bigint * :limit::bigint from first)
        and exists (
          select from states s
          cross join lateral (
            select from /* schema */river_job j where j.state = s.state order by j.queue
            offset :few_jobs::bigint limit 1
          ) x
        )
        and j.id /* onward: */ >= /* :onward */ (
          select j.id from /* schema */river_job j where true /* cursor */ order by j.id /* desc */
          offset :near_jobs::bigint limit 1
        )
      order by j.id /* desc */
      limit :far_jobs::bigint
    ) j
    where j.state = any(array(select s.state from states s)) /* terms */
    limit :limit::bigint + 1
  ),
  complete as materialized (select count(*) > :limit::bigint as complete from near)
  select n.id, null::timestamptz as at, true as matched, false as ended from near n
  where (select c.complete from complete c)
  union all
  (
    select x.id, null::timestamptz as at, true as matched, false as ended
    from states s
    cross join lateral (
      select j.id from /* schema */river_job j
      where j.state = s.state and not (select c.complete from complete c) /* cursor */ /* terms */
      order by j.queue, j.priority, j.scheduled_at, j.id
      offset 0
    ) x
    order by x.id /* desc */
    limit :limit::bigint + 1
  )
);

-- part: job_scan_columns (job_scan_state_id.columns)
-- All that most lists need: each further column costs time in every row that is read.
j.id, j.state, j.kind, j.priority, j.queue;

-- part: job_text_columns (job_text_get.columns)
-- Longer values are left out, and listed in the last column. Arrays may have a million elements, in any number of
-- dimensions: the last clients are read, as many as River keeps, and the first tags. Short arrays, which nearly all
-- are, are read unchanged.
j.id, case when pg_column_size(j.args) <= 2 * :args::bigint then left(j.args::text, :args::int + 1) end as args,
  j.attempt, j.attempted_at,
  case
    when pg_column_size(j.attempted_by) <= 512 and cardinality(j.attempted_by) <= 100 then j.attempted_by
    when pg_column_size(j.attempted_by) <= :arrays::int then
    array(select left(unnest(j.attempted_by[array_upper(j.attempted_by, 1) - 99:]), 1000) limit 100)
  end as attempted_by,
  j.created_at, j.finalized_at, j.kind, j.max_attempts, j.priority, j.queue, j.scheduled_at, j.state::text as state,
  case
    when pg_column_size(j.tags) <= 512 and cardinality(j.tags) <= :tags::int then j.tags::text[]
    when pg_column_size(j.tags) <= :arrays::int then array(select unnest(j.tags)::text limit :tags::int)
  end as tags,
  case when pg_column_size(j.attempted_by) <= :arrays::int then cardinality(j.attempted_by) > 100
    else j.attempted_by is not null end as attempted_by_cut,
  case when pg_column_size(j.tags) <= :arrays::int then cardinality(j.tags) > :tags::int
    else j.tags is not null end as tags_cut;

-- part: job_text_long_columns (job_text_get.long_columns)
-- Metadata, and the newest errors: lists of `at`, `attempt`, `error` and `trace`, all text or null, until so many
-- characters are spent.
case when pg_column_size(j.metadata) <= 2 * :metadata::bigint then left(j.metadata::text, :metadata::int + 1) end
    as metadata,
  cardinality(j.errors) as errors_size,
  (
    select json_agg(json_build_array(
      e.at, e.attempt,
      case when coalesce(e.spent, 0) < 4 * :error_size::bigint then left(e.error, :error_size::int + 1) end,
      case when coalesce(e.spent, 0) < 4 * :error_size::bigint then left(e.trace, :error_size::int + 1) end
    ) order by e.ordinality)::text
    from (
      select e.ordinality,
        case jsonb_typeof(e.error -> 'at') when 'string' then left(e.error ->> 'at', 64) end as at,
        case jsonb_typeof(e.error -> 'attempt') when 'number' then left(e.error ->> 'attempt', 32) end as attempt,
        case jsonb_typeof(e.error) when 'object' then coalesce(e.error ->> 'error', '')
          else coalesce(e.error::text, 'null') end as error,
        coalesce(e.error ->> 'trace', '') as trace,
        sum(least(char_length(e.error::text), 2 * :error_size::bigint)) over (
          order by e.ordinality desc rows between unbounded preceding and 1 preceding
        ) as spent
      from unnest(j.errors) with ordinality as e (error, ordinality)
      order by e.ordinality desc
      limit :errors::int
    ) e
  ) as errors;

-- name: job_text_get
select /* columns: */ j.id /* :columns */, /* long_columns: */ j.metadata /* :long_columns */
from /* table: */ /* schema */river_job j /* :table */
where j.id = :id::bigint;

