-- Whole jobs by River's own list parameters.

-- name: job_row_list
-- River: JobList.
select /* columns: */ j.id /* :columns */
from /* schema */river_job j
where true /* terms */
order by /* order: */ j.id /* :order */
limit :limit::bigint;

-- name: job_row_delete_many
-- River: JobDeleteMany.
with chosen as materialized (
  select j.id
  from /* schema */river_job j
  where j.state <> 'running' /* terms */
  order by j.id
  limit :limit::bigint
  for update skip locked
),
gone as (
  delete from /* schema */river_job j
  where j.id = any(array(select c.id from chosen c))
  returning /* columns: */ j.id /* :columns */
)
select /* names: */ x.id /* :names */ from gone x order by x.id;

-- name: job_select_ids
and j.id = any(:ids::bigint[]);

-- name: job_select_kinds
and j.kind = any(:kinds::text[]);

-- name: job_select_priorities
and j.priority = any(:priorities::smallint[]);

-- name: job_select_queues
and j.queue = any(:queues::text[]);

-- name: job_select_states
and j.state = any(:states::text[]::/* schema */river_job_state[]);

-- name: job_select_state
-- Equality lets an index give the order as well.
and j.state = :state::text::/* schema */river_job_state;

-- name: job_select_finalized
-- Follows from the states, and is what lets the planner use River's partial index.
and j.finalized_at is not null;

-- name: job_select_tags_all
and j.tags::text[] @> :tags_all::text[];

-- name: job_select_tags_any
and j.tags::text[] && :tags_any::text[];

-- name: job_select_metadata
and j.metadata @> :metadata::jsonb;

-- name: job_select_after_id
and j.id > :after_id::bigint;

-- name: job_select_before_id
and j.id < :after_id::bigint;

-- name: job_select_after
-- Nulls come last.
and (
  j./* column: */scheduled_at/* :column */ is null
  or (j./* column: */scheduled_at/* :column */, j.id) > (:after_at::timestamptz, :after_id::bigint)
);

-- name: job_select_before
and (j./* column: */scheduled_at/* :column */, j.id) < (:after_at::timestamptz, :after_id::bigint);

-- name: job_select_after_null
and j./* column: */scheduled_at/* :column */ is null and j.id > :after_id::bigint;

-- name: job_select_before_null
and (j./* column: */scheduled_at/* :column */ is not null or j.id < :after_id::bigint);
