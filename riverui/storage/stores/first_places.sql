-- Where the first available jobs are, and what stands before them.

-- name: job_first_place_list
-- Reads the index entries of removed row versions too, which are many while a transaction holds an old snapshot, and
-- counts them by the backend's own statistics: 0 without track_counts. The first subquery is needed before any entry is
-- read, the last count after all are.
with begun as materialized (
  select i.index_id, pg_stat_get_xact_tuples_returned(i.index_id) as entries
  from (
    select to_regclass(
      concat(quote_ident(:schema::text) || '.', 'river_job_prioritized_fetching_index')
    )::oid as index_id
  ) i
),
found as materialized (
  select b.index_id, b.entries,
    array_agg(f.scheduled_at order by p.priority) as scheduled_at, array_agg(f.id order by p.priority) as ids
  from begun b
  cross join generate_series(1, 4) as p (priority)
  left join lateral (
    select j.scheduled_at, j.id
    from /* schema */river_job j
    where j.state = 'available' and j.queue = :queue::text and j.priority = p.priority::smallint
      and j.scheduled_at <= coalesce(:now::timestamptz, now())
      /* after */
      /* kinds: */ and (j.kind = any(:kinds::text[])) is true /* :kinds */
    order by j.scheduled_at, j.id
    limit 1
  ) f on true
  group by b.index_id, b.entries
)
select f.scheduled_at, f.ids, coalesce(:now::timestamptz, now()) as at,
  coalesce(pg_stat_get_xact_tuples_returned(f.index_id) - f.entries, 0) as entries
from found f;

-- part: first_place_after (job_first_place_list.after)
and (j.scheduled_at, j.id) > (
        coalesce((:after_at::timestamptz[])[p.priority], '-infinity'), (:after_ids::bigint[])[p.priority]
      );
