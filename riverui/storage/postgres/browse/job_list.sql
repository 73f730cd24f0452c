-- Lists of jobs. A list is a union of scans: each reads one of River's indexes in the order shown, examines no more
-- rows than its window, and stops as soon as the page is full. `matched` means that the row fits the filter, `ended`
-- that the scan's window ends with this row (later rows are unknown).
-- Slots: desc (empty or "desc"), by_time (emptied in the orders by id), cursor, bounds (conditions that narrow the
-- index range), terms (all others), sort (emptied for counting, which needs no order).

-- name: job_list
with found as materialized (
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
select w.id, w.at, w.matched, w.ended, j.state::text as state, j.attempt, j.max_attempts, j.attempted_at,
  j.created_at, j.finalized_at, j.scheduled_at, j.priority,
  -- Large args keep every key with the beginning of its value: jsonb sorts keys by their length, so that the first
  -- characters of the whole would often be one long text, and not valid JSON. Short values are known by their size,
  -- without writing them out: 100 rows of 1.5 kB take 1 ms more.
  /* args: */
  case
    when pg_column_size(j.args) > 32768 then null
    when pg_column_size(j.args) <= 600 and length(j.args::text) <= 1000 then j.args::text
    when jsonb_typeof(j.args) = 'object' then (
      select jsonb_object_agg(
        left(e.key, 120),
        case
          when pg_column_size(e.value) <= 130 then e.value
          else to_jsonb(left(e.value #>> '{}', 120) || '...')
        end
      )::text
      from (select x.key, x.value from jsonb_each(j.args) x limit 24) e
    )
    else left(j.args::text, :preview::int)
  end
  /* :args */ as args_preview,
  j.kind, j.queue,
  /* tags: */
  -- An array of more dimensions may have any number of elements in its first twenty.
  case
    when pg_column_size(j.tags) > 32768 then null
    when array_ndims(j.tags) > 1 then array(select unnest(j.tags)::text limit 20)
    else j.tags[1:20]::text[]
  end
  /* :tags */ as tags,
  -- A long array would have to be decompressed whole for its last element and its length.
  /* error: */
  case when pg_column_size(j.errors) <= 131072 then
    case when cardinality(j.errors) > 0
      then left(
        split_part(
          coalesce(j.errors[array_upper(j.errors, 1)] ->> 'error', j.errors[array_upper(j.errors, 1)]::text),
          E'\n', 1
        ),
        :preview::int
      )
    end
  end as last_error,
  case when pg_column_size(j.errors) <= 131072 then cardinality(j.errors) > 0 else j.errors is not null end
    as has_errors
  /* :error */,
  -- Not shown: tables from before migration 5 lack it, and would otherwise look like an empty list.
  j.unique_key is not null as is_unique,
  /* values: */ null /* :values */::text[] as path_values
from found w
join /* schema */river_job j on j.id = w.id
order by /* by_time: */ w.at /* desc */, /* :by_time */ w.id /* desc */;

-- The values at JSON paths, in the order of the paths.

-- part: job_list_values (job_list.values)
array[/* paths */];

-- part: job_value_at_path (job_list_values.paths)
-- Text as it is, anything else as JSON.
case
  when pg_column_size(j./* column: */ args /* :column */) > :stored::int then '...'
  else left(j./* column: */ args /* :column */ #>> :path::text[], :length::int)
end;

-- part: job_json_at_path (job_list_values.paths)
case
  when pg_column_size(j./* column: */ args /* :column */) > :stored::int then '...'
  else left((j./* column: */ args /* :column */ #> :path::text[])::text, :length::int)
end;

-- part: job_values_at_path (job_list_values.paths)
-- Of every element of an array: the path is a jsonpath.
case
  when pg_column_size(j./* column: */ args /* :column */) > :stored::int then '...'
  else left(jsonb_path_query_array(j./* column: */ args /* :column */, :path::jsonpath, '{}', true)::text, :length::int)
end;

-- Replacements in a list for bulk actions.

-- part: job_list_without_args (job_list.args)
''::text;

-- part: job_list_without_tags (job_list.tags)
'{}'::text[];

-- part: job_list_without_error (job_list.error)
null::text as last_error, false as has_errors;

-- part: job_scan_finalized (job_list.scans)
-- "finalized_at is not null" is what lets the planner use River's partial index.
(
  select w.id, w.at, w.matched, w.ended
  from unnest(:finalized_states::text[]::/* schema */river_job_state[]) as s (state)
  cross join lateral (
    select r.id, r.at, r.matched, r.n = :finalized_window::bigint as ended
    from (
      select j.id, j.finalized_at as at, row_number() over () as n, true /* terms */ as matched
      from (
        select j.id, j.state, j.attempt, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at, j.priority,
          j.args, j.attempted_by, j.errors, j.kind, j.metadata, j.queue, j.tags
        from /* schema */river_job j
        where j.state = s.state and j.finalized_at is not null /* bounds */ /* cursor */
        /* sort: */ order by j.finalized_at /* desc */, j.id /* desc */ /* :sort */
        limit :finalized_window::bigint
      ) j
    ) r
    where r.matched or r.n = :finalized_window::bigint
    limit :limit::bigint + 1
  ) w
);

-- part: job_scan_finalized_whole (job_list.scans)
-- To the end if needed: the planner decides by the terms whether to follow the order or to sort the rows of another
-- index.
(
  select j.id, j.finalized_at as at, true as matched, false as ended
  from /* schema */river_job j
  where j.state = :finalized_state::text::/* schema */river_job_state and j.finalized_at is not null
    /* terms */ /* cursor */
  order by j.finalized_at /* desc */, j.id /* desc */
  limit :limit::bigint + 1
);

-- part: job_scan_waiting (job_list.scans)
-- River's fetching index is ordered by time only within a queue and priority: one short scan for each pair.
(
  select w.id, w.at, w.matched, w.ended
  from (
    select c.state, c.queue, c.priority, c.size
    from (
      select s.state, j.queue, j.priority,
        greatest(:limit::bigint + 1, :waiting_window::bigint / count(*) over ()) as size
      from unnest(:waiting_states::text[]::/* schema */river_job_state[]) as s (state)
      cross join lateral (
        /* pairs: */
        with recursive pair as (
          (
            select j.queue, j.priority, 1 as n from /* schema */river_job j
            where j.state = s.state
            order by j.queue, j.priority limit 1
          )
          union all
          select x.queue, x.priority, p.n + 1
          from pair p
          cross join lateral (
            select j.queue, j.priority from /* schema */river_job j
            where j.state = s.state and (j.queue, j.priority) > (p.queue, p.priority)
            order by j.queue, j.priority limit 1
          ) x
          where p.n < 10000
        )
        select p.queue, p.priority from pair p
        /* :pairs */
      ) j
      where true /* pair_terms */
    ) c
    /* nearest */
  ) b
  cross join lateral (
    select r.id, r.at, r.matched, r.n = b.size as ended
    from (
      select j.id, j.scheduled_at as at, row_number() over () as n, true /* terms */ as matched
      from (
        select j.id, j.state, j.attempt, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at, j.priority,
          j.args, j.attempted_by, j.errors, j.kind, j.metadata, j.queue, j.tags
        from /* schema */river_job j
        where j.state = b.state and j.queue = b.queue and j.priority = b.priority /* bounds */ /* cursor */
        order by j.scheduled_at /* desc */, j.id /* desc */
        limit b.size
      ) j
    ) r
    where r.matched or r.n = b.size
    limit :limit::bigint + 1
  ) w
);

-- part: job_scan_nearest (job_scan_waiting.nearest)
-- If every row fits, only the pairs whose first rows come first can be on the page.
cross join lateral (
  select j.scheduled_at, j.id from /* schema */river_job j
  where j.state = c.state and j.queue = c.queue and j.priority = c.priority /* bounds */ /* cursor */
  order by j.scheduled_at /* desc */, j.id /* desc */
  limit 1
) head
order by head.scheduled_at /* desc */, head.id /* desc */
limit :limit::bigint + 1;

-- part: job_pairs_named (job_scan_waiting.pairs)
select q.queue, p.priority::smallint
from unnest(:queues::text[]) as q (queue)
cross join generate_series(1, 4) as p (priority);

-- part: job_scan_running (job_list.scans)
-- No index has the start of running jobs; there are at most as many as the workers have slots.
(
  select r.id, r.at, true as matched, false as ended
  from (
    select j.id, coalesce(j.attempted_at, j.scheduled_at) as at, true /* terms */ as matched
    from (
      select j.id, j.state, j.attempt, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at, j.priority,
        j.args, j.attempted_by, j.errors, j.kind, j.metadata, j.queue, j.tags
      from /* schema */river_job j
      where j.state = 'running'
      limit 100000
    ) j
  ) r
  where r.matched /* cursor */
  order by r.at /* desc */, r.id /* desc */
  limit :limit::bigint + 1
);

-- part: job_scan_id (job_list.scans)
(
  select r.id, r.at, r.matched, r.n = :id_window::bigint as ended
  from (
    select j.id, j.created_at as at, row_number() over () as n, true /* terms */ as matched
    from (
      select j.id, j.state, j.attempt, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at, j.priority,
        j.args, j.attempted_by, j.errors, j.kind, j.metadata, j.queue, j.tags
      from /* schema */river_job j
      where true /* bounds */ /* cursor */
      order by j.id /* desc */
      limit :id_window::bigint
    ) j
  ) r
  where r.matched or r.n = :id_window::bigint
  limit :limit::bigint + 1
);

-- part: job_scan_candidates (job_list.scans)
-- A few rows that an index has found: no window needed, whatever the other terms.
(
  select r.id, r.at, true as matched, false as ended
  from (
    select j.id, /* at: */ null::timestamptz /* :at */ as at, true /* terms */ as matched
    from (
      select j.id, j.state, j.attempt, j.attempted_at, j.created_at, j.finalized_at, j.scheduled_at, j.priority,
        j.args, j.attempted_by, j.errors, j.kind, j.metadata, j.queue, j.tags
      from /* schema */river_job j
      where /* candidates: */ j.id = any(array[1, 2]) /* :candidates */
      offset 0
    ) j
  ) r
  where r.matched /* cursor */
  order by /* by_time: */ r.at /* desc */, /* :by_time */ r.id /* desc */
  limit :limit::bigint + 1
);

-- part: job_at (job_at_get.at)
case
  when j.state in ('cancelled', 'completed', 'discarded') then coalesce(j.finalized_at, j.scheduled_at)
  when j.state = 'running' then coalesce(j.attempted_at, j.scheduled_at)
  else j.scheduled_at
end;

-- name: job_at_get
select (/* at: */ j.scheduled_at /* :at */)::text as at from /* schema */river_job j where j.id = :id::bigint;

-- part: job_cursor_finalized (job_scan_finalized.cursor)
and (j.finalized_at, j.id) /* beyond: */ > /* :beyond */ (:cursor_at::timestamptz, :cursor_id::bigint);

-- part: job_cursor_waiting (job_scan_waiting.cursor)
and (j.scheduled_at, j.id) /* beyond: */ > /* :beyond */ (:cursor_at::timestamptz, :cursor_id::bigint);

-- part: job_cursor_found (job_scan_running.cursor)
and (r.at, r.id) /* beyond: */ > /* :beyond */ (:cursor_at::timestamptz, :cursor_id::bigint);

-- part: job_cursor_id (job_scan_id.cursor)
and j.id /* beyond: */ > /* :beyond */ :cursor_id::bigint;

-- part: job_cursor_found_id (job_scan_candidates.cursor)
and r.id /* beyond: */ > /* :beyond */ :cursor_id::bigint;

-- name: job_count
select count(*) filter (where c.matched) as matched, coalesce(bool_or(c.ended), false) as ended
from (
  select w.matched, w.ended
  from (
    /* scans: */
    select j.id, true as matched, false as ended from /* schema */river_job j
    order by j.id limit :limit::bigint + 1
    /* :scans */
  ) w
  limit :limit::bigint + 1
) c;

-- Probes: does an index find few enough rows to examine them all?

-- name: job_probe_kind
-- The range and the order, instead of "=", keep the planner on the index whatever its estimate for the kind.
select count(*)::bigint as found
from (
  select 1
  from unnest(:kinds::text[]) as k (kind)
  cross join lateral (
    select 1 from /* schema */river_job j
    where j.kind >= k.kind and j.kind <= k.kind
    order by j.kind
    limit :most::bigint
  ) x
  limit :most::bigint
) found;

-- name: job_probe_queue
select count(*)::bigint as found
from (
  select 1
  from unnest(:states::text[]::/* schema */river_job_state[]) as s (state)
  cross join unnest(:queues::text[]) as q (queue)
  cross join lateral (
    select 1 from /* schema */river_job j
    where j.state = s.state and j.queue = q.queue
    order by j.priority
    limit :most::bigint
  ) x
  limit :most::bigint
) found;

-- name: job_probe_state
select count(*)::bigint as found
from (
  select 1
  from unnest(:states::text[]::/* schema */river_job_state[]) as s (state)
  cross join lateral (
    select 1 from /* schema */river_job j
    where j.state = s.state
    order by j.queue
    limit :most::bigint
  ) x
  limit :most::bigint
) found;

-- name: job_contains_explain
explain (format json) select j.id from /* schema */river_job j where true /* terms */;

-- name: job_contains_ids
select j.id from /* schema */river_job j where true /* terms */ limit :most::bigint;

-- Terms of a filter. Every comparison with several values means any of them.

-- part: job_term (job_scan_id.terms)
and coalesce((/* term: */ true /* :term */), false);

-- part: job_term_plain (job_scan_finalized_whole.terms)
-- Null counts as false.
and (/* term: */ true /* :term */);

-- part: job_term_not (job_scan_id.terms)
and not coalesce((/* term: */ true /* :term */), false);

-- part: job_term_number (job_term.term)
j./* column: */id/* :column */ /* op: */ = /* :op */ any(:value::bigint[]);

-- part: job_term_time (job_term.term)
j./* column: */created_at/* :column */ /* op: */ = /* :op */ any(:value::timestamptz[]);

-- part: job_term_name (job_term.term)
j./* column: */kind/* :column */ = any(:value::text[]);

-- part: job_term_name_like (job_term.term)
j./* column: */kind/* :column */ ilike any(:value::text[]);

-- part: job_term_list (job_term.term)
j./* column: */tags/* :column */::text[] && :value::text[];

-- part: job_term_tags (job_term_plain.term)
j.tags && :value::text[]::varchar[];

-- part: job_term_list_like (job_term.term)
exists (
  select from unnest(j./* column: */tags/* :column */::text[]) as e (name) where e.name ilike any(:value::text[])
);

-- part: job_term_state (job_scan_id.terms)
and j.state = any(:states::text[]::/* schema */river_job_state[]);

-- part: job_term_json (job_term.term)
j./* column: */args/* :column */ @> :value::jsonb;

-- part: job_term_error (job_term.term)
j.errors is not null and exists (
  select from unnest(j.errors) as e (error) where e.error ->> 'error' ilike any(:value::text[])
);

-- part: job_bound_json (job_contains_ids.terms)
and (/* term: */ true /* :term */);

-- part: job_bound_time (job_scan_finalized.bounds)
and j./* column: */created_at/* :column */ /* op: */ = /* :op */ :value::timestamptz;

-- part: job_bound_id (job_scan_id.bounds)
and j.id /* op: */ = /* :op */ :value::bigint;

-- part: job_candidates_ids (job_scan_candidates.candidates)
j.id = any(:candidates::bigint[]);

-- part: job_candidates_kind (job_scan_candidates.candidates)
j.kind = any(:candidates::text[]);

-- part: job_candidates_queue (job_scan_candidates.candidates)
j.state = any(:states::text[]::/* schema */river_job_state[]) and j.queue = any(:candidates::text[]);

-- part: job_candidates_state (job_scan_candidates.candidates)
j.state = any(:states::text[]::/* schema */river_job_state[]);

-- part: job_cutoff_terms (job_scan_id.terms)
-- Rows in the set at the cutoff: no column has the time of the last change of state, so each newer time excludes a row.
and j.id <= :cutoff_id::bigint
and (j.finalized_at is null or j.finalized_at <= :cutoff_at::timestamptz)
and (j.attempted_at is null or j.attempted_at <= :cutoff_at::timestamptz)
and (j.state <> 'available' or j.scheduled_at <= :cutoff_at::timestamptz);

-- part: job_cutoff_bound_id (job_scan_id.bounds)
and j.id <= :cutoff_id::bigint;

-- part: job_cutoff_bound_finalized (job_scan_finalized.bounds)
and j.finalized_at <= :cutoff_at::timestamptz;
