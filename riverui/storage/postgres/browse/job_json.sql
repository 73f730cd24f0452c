-- Pages of jobs as one JSON text, with times and all other values in the format of the JSON API.

-- name: job_json_list
-- One row: `jobs`, up to the limit and in order; `id` and `at` of the last of them; and how many were `found`, one more
-- than the limit if more follow. Some are `unwritten` if this form cannot represent them: then job_text_list has to
-- read the page.
select string_agg(p.job, ',') filter (where p.n <= :limit::bigint) as jobs,
  max(p.id) filter (where p.n = :limit::bigint) as id, max(p.at) filter (where p.n = :limit::bigint) as at,
  count(*) as found, count(*) filter (where p.job is null) as unwritten
from (
  select r.id, r.at, row_number() over () as n, /* job: */ null::text /* :job */ as job
  from (
    /* jobs: */
    select j.id, w.at, j.args, j.attempt, j.attempted_at, j.attempted_by, j.created_at, j.finalized_at, j.kind,
      j.max_attempts, j.priority, j.queue, j.scheduled_at, j.state, j.tags
    from (
      select w.id, w.at
      from (
        /* scans: */
        select j.id, j.created_at as at, true as matched, false as ended from /* schema */river_job j
        order by j.id limit :limit::bigint + 1
        /* :scans */
      ) w
      order by /* by_time: */ w.at /* desc */, /* :by_time */ w.id /* desc */
      limit :limit::bigint + 1
    ) w
    join /* schema */river_job j on j.id = w.id
    order by /* by_time: */ w.at /* desc */, /* :by_time */ w.id /* desc */
    /* :jobs */
  ) r
  -- Written once. Large ones are not read, as they may decompress to a hundred times their size.
  cross join lateral (
    select case when pg_column_size(r.args) <= 20000 then r.args::text end as args offset 0
  ) a
  cross join (select '}' as rest) e
) p;

-- part: job_json_finalized (job_json_list.jobs)
-- Ended jobs in the order of their index, to the end if needed: the planner decides by the terms whether to follow it
-- or to sort the rows of another index.
select j.id, j.finalized_at as at, j.args, j.attempt, j.attempted_at, j.attempted_by, j.created_at, j.finalized_at,
  j.kind, j.max_attempts, j.priority, j.queue, j.scheduled_at, j.state, j.tags
from /* schema */river_job j
where j.state = :finalized_state::text::/* schema */river_job_state and j.finalized_at is not null
  /* terms */ /* cursor */
order by j.finalized_at /* desc */, j.id /* desc */
limit :limit::bigint + 1;

-- part: job_json_object (job_json_list.job)
case
  when octet_length(a.args) <= :args::int and e.rest is not null
    /* known: */ and r.state::text = any(:states::text[]) /* :known */
    -- Within Python's calendar.
    and least(r.created_at, r.scheduled_at, r.attempted_at, r.finalized_at) >= '0001-01-01 00:00:00+00'
    and greatest(r.created_at, r.scheduled_at, r.attempted_at, r.finalized_at) < '10000-01-01 00:00:00+00'
    and case
      when r.attempted_by is null or r.attempted_by = '{}' then true
      when pg_column_size(r.attempted_by) <= 8000 and array_ndims(r.attempted_by) = 1
        and cardinality(r.attempted_by) <= 100
      then array_position(r.attempted_by, null) is null and (
        pg_column_size(r.attempted_by) <= 512
        or (select max(length(e)) from unnest(r.attempted_by) as e) <= 1000
      )
    end
    and case
      when r.tags is null or r.tags = '{}' then true
      when pg_column_size(r.tags) <= 8000 and array_ndims(r.tags) = 1 and cardinality(r.tags) <= 100
      then array_position(r.tags, null) is null
    end
  then concat(
    '{"id":', r.id,
    ',"args":', to_json(a.args),
    ',"attempt":', r.attempt,
    ',"attempted_at":', coalesce(replace(to_json(r.attempted_at)::text, '+00:00', 'Z'), 'null'),
    ',"attempted_by":', coalesce(to_json(r.attempted_by)::text, '[]'),
    ',"created_at":', replace(to_json(r.created_at)::text, '+00:00', 'Z'),
    ',"finalized_at":', coalesce(replace(to_json(r.finalized_at)::text, '+00:00', 'Z'), 'null'),
    ',"kind":', to_json(r.kind),
    ',"max_attempts":', r.max_attempts,
    ',"priority":', r.priority,
    ',"queue":', to_json(r.queue),
    ',"scheduled_at":', replace(to_json(r.scheduled_at)::text, '+00:00', 'Z'),
    ',"state":"', r.state,
    '","tags":', coalesce(to_json(r.tags)::text, '[]'),
    e.rest
  )
end;

-- name: job_json_get
-- With its metadata and errors, if these are in River's format.
select /* job: */ null::text /* :job */ as job
from /* schema */river_job r
cross join lateral (
  select case when pg_column_size(r.args) <= 20000 then r.args::text end as args offset 0
) a
cross join lateral (
  select case when pg_column_size(r.metadata) <= 20000 then concat(
      ',"errors":', errors.written, ',"metadata":', r.metadata, '}'
    ) end as rest
  from (
    select case
      when r.errors is null or r.errors = '{}' then '[]'
      when pg_column_size(r.errors) <= 20000 and array_ndims(r.errors) = 1 and cardinality(r.errors) <= 100 then (
        select case
          when bool_and(coalesce(
              jsonb_typeof(x.error) = 'object' and jsonb_typeof(x.error -> 'at') = 'string'
              and length(x.error ->> 'at') <= 64 and x.error ->> 'attempt' ~ '^[0-9]{1,9}$'
              and jsonb_typeof(x.error -> 'attempt') = 'number' and jsonb_typeof(x.error -> 'error') = 'string'
              and jsonb_typeof(x.error -> 'trace') = 'string', false
            )) and sum(octet_length(x.error::text)) <= 1000000
          then concat('[', string_agg(concat(
              '{"at":', x.error -> 'at', ',"attempt":', x.error -> 'attempt', ',"error":', x.error -> 'error',
              ',"trace":', x.error -> 'trace', '}'
            ), ',' order by x.place), ']')
        end
        from unnest(r.errors) with ordinality as x (error, place)
      )
    end as written
  ) errors
  where errors.written is not null
  offset 0
) e
where r.id = :id::bigint;
