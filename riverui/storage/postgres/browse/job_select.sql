-- Whole jobs by River's own list parameters.

-- name: job_row_list
-- River: JobList.
select /* columns: */ j.id /* :columns */
from /* schema */river_job j
where true /* terms */
order by /* by_time */ j.id /* desc */
limit :limit::bigint;

-- part: job_row_order (job_row_list.by_time)
j./* column: */scheduled_at/* :column */ /* desc */,;

-- name: job_row_count
select x.state::text as state, count(*) as jobs
from (
  select j.state from /* schema */river_job j
  where true /* terms */
  limit :limit::bigint
) x
group by x.state;

-- name: job_delete_selected
-- River: JobDeleteMany.
with chosen as materialized (
  select j.id
  from /* schema */river_job j
  where j.state <> 'running' /* terms */
  order by j.id
  limit :limit::bigint
  for update skip locked
),
removed as (
  delete from /* schema */river_job j
  where j.id = any(array(select c.id from chosen c))
  returning /* columns: */ j.id /* :columns */
)
select /* columns: */ j.id /* :columns */ from removed j order by j.id;

-- part: job_select_ids (job_row_list.terms)
and j.id = any(:value::bigint[]);

-- part: job_select_kinds (job_row_list.terms)
and j.kind = any(:value::text[]);

-- part: job_select_priorities (job_row_list.terms)
and j.priority = any(:value::smallint[]);

-- part: job_select_queues (job_row_list.terms)
and j.queue = any(:value::text[]);

-- part: job_select_states (job_row_list.terms)
and j.state = any(:value::text[]::/* schema */river_job_state[]);

-- part: job_select_state (job_row_list.terms)
-- Equality lets an index give the order as well.
and j.state = :value::text::/* schema */river_job_state;

-- part: job_select_finalized (job_row_list.terms)
-- Follows from the states, and is what lets the planner use River's partial index.
and j.finalized_at is not null;

-- part: job_select_tags_all (job_row_list.terms)
and j.tags::text[] @> :value::text[];

-- part: job_select_tags_any (job_row_list.terms)
and j.tags::text[] && :value::text[];

-- part: job_select_metadata (job_row_list.terms)
and j.metadata @> :value::jsonb;

-- part: job_select_after_id (job_row_list.terms)
and j.id > :after_id::bigint;

-- part: job_select_before_id (job_row_list.terms)
and j.id < :after_id::bigint;

-- part: job_select_after (job_row_list.terms)
-- Nulls come last.
and (
  j./* column: */scheduled_at/* :column */ is null
  or (j./* column: */scheduled_at/* :column */, j.id) > (:after_at::timestamptz, :after_id::bigint)
);

-- part: job_select_before (job_row_list.terms)
and (j./* column: */scheduled_at/* :column */, j.id) < (:after_at::timestamptz, :after_id::bigint);

-- part: job_select_after_null (job_row_list.terms)
and j./* column: */scheduled_at/* :column */ is null and j.id > :after_id::bigint;

-- part: job_select_before_null (job_row_list.terms)
and (j./* column: */scheduled_at/* :column */ is not null or j.id < :after_id::bigint);
