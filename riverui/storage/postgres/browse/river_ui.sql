-- What River UI's API reads and changes, in its own shapes.

-- name: job_minimal_list
-- The walks of job_list.
with walked as materialized (
  select w.id, w.at, w.matched, w.ended
  from (
    /* walks: */
    select j.id, j.created_at as at, true as matched, false as ended from /* schema */river_job j
    order by j.id limit :limit::bigint + 1
    /* :walks */
  ) w
  order by /* order: */ w.at, w.id /* :order */
  limit :limit::bigint + 1
)
-- The page ends early where its args may be large: how large they are stored is known without reading them, and what
-- is long enough to be compressed may unpack to a hundred times as much.
select j.id, j.at, j.matched, j.ended, /* columns: */ j.id /* :columns */, j.found
from (
  select w.at, w.matched, w.ended, r.id, r.args, r.attempt, r.attempted_at, r.attempted_by, r.created_at, r.finalized_at,
    r.kind, r.max_attempts, r.priority, r.queue, r.scheduled_at, r.state, r.tags, count(*) over () as found,
    row_number() over (order by /* order: */ w.at, w.id /* :order */) as place,
    sum(pg_column_size(r.args)::bigint * case when pg_column_size(r.args) > 2000 then 100 else 1 end) over (
      order by /* order: */ w.at, w.id /* :order */ rows between unbounded preceding and 1 preceding
    ) as unpacked
  from walked w
  join /* schema */river_job r on r.id = w.id
) j
where coalesce(j.unpacked, 0) <= :unpacked::bigint
order by j.place;

-- name: job_walk_state_id
-- Jobs of some states by id: River's fetching index holds both, so all of a state's entries are sorted rather than the
-- whole table walked until enough have turned up. The order within, which costs nothing, keeps the planner on it.
select x.id, null::timestamptz as at, true as matched, false as ended
from unnest(:states::text[]::/* schema */river_job_state[]) as s (state)
cross join lateral (
  select j.id from /* schema */river_job j
  where j.state = s.state
  order by j.queue, j.priority, j.scheduled_at, j.id
  offset 0
) x
where true /* cursor */
order by x.id /* desc */
limit :limit::bigint + 1;

-- name: job_cursor_state_id
and x.id /* beyond: */ > /* :beyond */ :cursor_id::bigint;

-- name: job_minimal_columns
-- What is longer than asked for is left out, and told at the end. Arrays may hold a million elements, in any number of
-- dimensions: of clients the last are taken, as many as River keeps, of tags the first. Short ones, as nearly all are,
-- are taken as they are.
j.id, case when pg_column_size(j.args) <= 2 * :args::bigint then left(j.args::text, :args::int + 1) end, j.attempt,
  j.attempted_at,
  case
    when pg_column_size(j.attempted_by) <= 512 and cardinality(j.attempted_by) <= 100 then j.attempted_by
    when pg_column_size(j.attempted_by) <= :arrays::int then
    array(select left(unnest(j.attempted_by[array_upper(j.attempted_by, 1) - 99:]), 1000) limit 100)
  end,
  j.created_at, j.finalized_at, j.kind, j.max_attempts, j.priority, j.queue, j.scheduled_at, j.state::text,
  case
    when pg_column_size(j.tags) <= 512 and cardinality(j.tags) <= :tags::int then j.tags::text[]
    when pg_column_size(j.tags) <= :arrays::int then array(select unnest(j.tags)::text limit :tags::int)
  end,
  case when pg_column_size(j.attempted_by) <= :arrays::int then cardinality(j.attempted_by) > 100
    else j.attempted_by is not null end,
  case when pg_column_size(j.tags) <= :arrays::int then cardinality(j.tags) > :tags::int else j.tags is not null end;

-- name: job_text_columns
-- Metadata, and the newest errors: lists of `at`, `attempt`, `error` and `trace`, all text or null, until so many
-- characters are spent.
case when pg_column_size(j.metadata) <= 2 * :metadata::bigint then left(j.metadata::text, :metadata::int + 1) end,
  cardinality(j.errors),
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
  );

-- name: job_text_get
select /* columns: */ j.id /* :columns */, /* texts: */ j.metadata /* :texts */
from /* schema */river_job j
where j.id = :id::bigint;

-- name: job_kind_page
-- River: JobKindList, as a loose scan.
with recursive kinds as (
  (
    select j.kind, 1 as n from /* schema */river_job j
    where j.kind > :after::text
    order by j.kind limit 1
  )
  union all
  select x.kind, k.n + 1
  from kinds k
  cross join lateral (select j.kind from /* schema */river_job j where j.kind > k.kind order by j.kind limit 1) x
  where k.n < :most::bigint
)
select k.kind from kinds k
where k.kind ilike :pattern::text and not k.kind = any(:exclude::text::text[])
order by k.kind
limit :limit::bigint;

-- name: queue_name_page
-- River: QueueNameList.
select q.name from /* schema */river_queue q
where q.name > :after::text and q.name ilike :pattern::text and not q.name = any(:exclude::text::text[])
order by q.name
limit :limit::bigint;

-- name: queue_count_list
with page as (
  select q.name, q.created_at, q.metadata, q.paused_at, q.updated_at
  from /* schema */river_queue q
  where true /* named */
  order by q.name
  limit :limit::bigint
)
select p.name, p.created_at, left(p.metadata::text, 100000), char_length(p.metadata::text), p.paused_at, p.updated_at,
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'available' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  ),
  (
    select count(*) from (
      select 1 from /* schema */river_job j
      where j.state = 'running' and j.queue = p.name
      order by j.priority limit :cap::bigint
    ) x
  )
from page p
order by p.name;

-- name: queue_count_named
and q.name = :name::text;

-- name: queue_set_concurrency
-- What else stands in the metadata stays there.
with changed as (
  update /* schema */river_queue q
  set metadata = case
      when :concurrency::text is not null
        then jsonb_set(
          case jsonb_typeof(q.metadata) when 'object' then q.metadata else '{}' end,
          '{concurrency}', :concurrency::text::jsonb
        )
      when jsonb_typeof(q.metadata) = 'object' then q.metadata - 'concurrency'
      else '{}'
    end,
    updated_at = now()
  where q.name = :name::text
  returning q.name, q.created_at, q.metadata, q.paused_at, q.updated_at
)
select c.name, c.created_at, left(c.metadata::text, 100000), char_length(c.metadata::text), c.paused_at, c.updated_at,
  pg_notify(
    concat(coalesce(:schema::text, current_schema()), '.river_control'),
    jsonb_build_object('action', 'metadata_changed', 'metadata', c.metadata, 'queue', c.name)::text
  )
from changed c;

-- name: queue_touch
-- River: QueueUpdate without metadata.
update /* schema */river_queue q
set updated_at = now()
where q.name = :name::text
returning q.name, q.created_at, left(q.metadata::text, 100000), char_length(q.metadata::text), q.paused_at, q.updated_at;
