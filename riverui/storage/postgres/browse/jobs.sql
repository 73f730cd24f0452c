-- One job, and counts of jobs.

-- name: job_get
-- `unique_states` came with migration 6: if the table lacks it, the name refers to the outer one, which is null.
-- Arrays may have a million elements, in any number of dimensions and with any lower bound: the first tags are read,
-- and the last clients and errors. With nulls in the slots, a row that is too large need not be decompressed.
select j.id, j.state::text as state, j.attempt, j.max_attempts, j.attempted_at, j.created_at, j.finalized_at,
  j.scheduled_at, j.priority, left(j.args_text, :cut::int) as args,
  coalesce(char_length(j.args_text), j.args_bytes) as args_size,
  array(
    select left(unnest(j.attempted_by[array_upper(j.attempted_by, 1) - 99:]), :name_length::int + 1) limit 100
  ) as attempted_by,
  j.kind,
  left(j.metadata_text, :cut::int) as metadata,
  coalesce(char_length(j.metadata_text), j.metadata_bytes) as metadata_size,
  left(j.output_text, :cut::int) as output, char_length(j.output_text) as output_size,
  j.queue, array(select unnest(j.tags)::text limit :tags::int) as tags,
  substring(j.unique_key from 1 for 64) as unique_key, j.unique_states::text as unique_states,
  left(j.metadata ->> 'cancel_attempted_at', 64) as cancel_attempted_at,
  left(j.metadata ->> 'snoozes', 32) as snoozes, left(j.metadata ->> 'river:rescue_count', 32) as rescues,
  (
    -- Newest first until the budget is spent; later ones keep their place but not their text.
    select json_agg(json_build_array(
      e.at, e.attempt,
      case when coalesce(e.spent, 0) < 4 * :cut::bigint then left(e.error, :cut::int) end,
      case when coalesce(e.spent, 0) < 4 * :cut::bigint then left(e.trace, :cut::int) else '' end
    ) order by e.ordinality)::text
    from (
      select e.ordinality, left(e.error ->> 'at', 64) as at, left(e.error ->> 'attempt', 32) as attempt,
        coalesce(
          e.error ->> 'error', case when jsonb_typeof(e.error) = 'object' then '' else e.error::text end
        ) as error,
        coalesce(e.error ->> 'trace', '') as trace,
        sum(least(char_length(e.error::text), 2 * :cut::bigint)) over (
          order by e.ordinality desc rows between unbounded preceding and 1 preceding
        ) as spent
      from unnest(j.errors) with ordinality as e (error, ordinality)
      order by e.ordinality desc
      limit 1000
    ) e
  ) as errors,
  (
    select json_agg(json_build_array(
      l.attempt, case when coalesce(l.spent, 0) < 4 * :cut::bigint then right(l.log, :cut::int) else '' end,
      char_length(l.log)
    ) order by l.ordinality)::text
    from (
      select l.ordinality, left(l.entry ->> 'attempt', 32) as attempt, coalesce(l.entry ->> 'log', '') as log,
        sum(least(char_length(l.entry ->> 'log'), :cut::bigint)) over (
          order by l.ordinality desc rows between unbounded preceding and 1 preceding
        ) as spent
      from jsonb_array_elements(
        case jsonb_typeof(j.metadata -> 'river:log') when 'array' then j.metadata -> 'river:log' else '[]' end
      ) with ordinality as l (entry, ordinality)
      where jsonb_typeof(l.entry) = 'object'
      order by l.ordinality desc
      limit 1000
    ) l
  ) as logs,
  greatest(cardinality(j.attempted_by) - 100, 0) as attempted_by_dropped,
  greatest(cardinality(j.tags) - :tags::int, 0) as tags_dropped
from (select null::bit(8) as unique_states) as absent
cross join lateral (
  select id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority,
    args::text as args_text, args_bytes, attempted_by, errors, kind, metadata, metadata_bytes,
    (case jsonb_typeof(metadata) when 'object' then metadata - '{output,river:log}'::text[] else metadata end)::text
      as metadata_text,
    (metadata -> 'output')::text as output_text,
    queue, tags, unique_key, unique_states
  from (
    -- Subtracting an empty key decompresses the metadata, which may have megabytes of logs, only once.
    select id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority,
      /* args: */ args /* :args */ as args, pg_column_size(args) as args_bytes,
      attempted_by, /* errors: */ errors /* :errors */ as errors, kind,
      /* metadata: */
      case jsonb_typeof(metadata) when 'object' then metadata - '{}'::text[] else metadata end
      /* :metadata */ as metadata, pg_column_size(metadata) as metadata_bytes,
      queue, tags, unique_key, unique_states
    from /* table: */ /* schema */river_job /* :table */
    where id = :id::bigint
    offset 0
  ) unpacked
  offset 0
) j;

-- part: job_get_without_args (job_get.args)
null::jsonb;

-- part: job_get_without_errors (job_get.errors)
null::jsonb[];

-- part: job_get_without_metadata (job_get.metadata)
null::jsonb;

-- name: job_text_piece
-- Part of a text and its whole size, in bytes: an offset in bytes does not need the text before it.
select substring(w.data from :start::int + 1 for :size::int) as data, octet_length(w.data) as size, w.version
from (
  select convert_to(t.text, 'UTF8') as data, t.version
  from (/* text: */ select kind as text, xmin::text as version from /* schema */river_job /* :text */) t
  where t.text is not null
  offset 0
) w;

-- part: job_text_log (job_text_piece.text)
-- Entries of one attempt, each on its own lines. Anything but a whole number counts as 0, as on the page.
select string_agg(
    case when l.last or l.log like E'%\n' then l.log else l.log || E'\n' end, '' order by l.ordinality
  ) as text, l.version
from (
  select coalesce(e.entry ->> 'log', '') as log, e.ordinality, j.xmin::text as version,
    e.ordinality = max(e.ordinality) over () as last
  from /* schema */river_job j
  cross join lateral jsonb_array_elements(
    case jsonb_typeof(j.metadata -> 'river:log') when 'array' then j.metadata -> 'river:log' else '[]' end
  ) with ordinality as e (entry, ordinality)
  where j.id = :id::bigint and jsonb_typeof(e.entry) = 'object'
    and case when e.entry ->> 'attempt' ~ '^-?[0-9]{1,18}$' then (e.entry ->> 'attempt')::bigint else 0 end
      = :attempt::bigint
) l
group by l.version;

-- part: job_text_args (job_text_piece.text)
select args::text as text, xmin::text as version from /* schema */river_job where id = :id::bigint;

-- part: job_text_metadata (job_text_piece.text)
select metadata::text as text, xmin::text as version from /* schema */river_job where id = :id::bigint;

-- part: job_text_output (job_text_piece.text)
select (metadata -> 'output')::text as text, xmin::text as version from /* schema */river_job where id = :id::bigint;

-- part: job_text_errors (job_text_piece.text)
select coalesce(to_jsonb(errors), '[]')::text as text, xmin::text as version
from /* schema */river_job
where id = :id::bigint;

-- part: job_text_job (job_text_piece.text)
select jsonb_build_object(
  'id', j.id, 'args', j.args, 'attempt', j.attempt, 'attempted_at', j.attempted_at, 'attempted_by', j.attempted_by,
  'created_at', j.created_at, 'errors', j.errors, 'finalized_at', j.finalized_at, 'kind', j.kind,
  'max_attempts', j.max_attempts, 'metadata', j.metadata, 'priority', j.priority, 'queue', j.queue,
  'scheduled_at', j.scheduled_at, 'state', j.state, 'tags', j.tags, 'unique_key', encode(j.unique_key, 'hex'),
  'unique_states', j.unique_states::text
)::text as text, j.version
from (select null::bit(8) as unique_states) as absent
cross join lateral (
  select id, args, attempt, attempted_at, attempted_by, created_at, errors, finalized_at, kind, max_attempts, metadata,
    priority, queue, scheduled_at, state, tags, unique_key, unique_states, xmin::text as version
  from /* schema */river_job
  where id = :id::bigint
) j;

-- name: job_cutoff
select coalesce((select id from /* schema */river_job order by id desc limit 1), 0) as id, now() as at;

-- name: job_count_by_state
-- Each state's index entries up to the cap. The statistics know the share of `completed` well enough to estimate it
-- beyond the cap, with `reltuples` scaled to the table's current size as the planner does.
select s.state::text as state,
  (
    select count(*) from (
      select 1 from /* schema */river_job j where j.state = s.state order by j.queue limit :cap::bigint + 1
    ) x
  ) as counted,
  case when s.state = 'completed' then (
    select (
      c.reltuples * m.freq::float8
        * (pg_relation_size(c.oid) / current_setting('block_size')::float8) / greatest(1, c.relpages)
    )::bigint
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_stats t on t.schemaname = n.nspname and t.tablename = c.relname and t.attname = 'state' and not t.inherited
    cross join lateral unnest(t.most_common_vals::text::text[], t.most_common_freqs) as m (state, freq)
    where c.oid = '/* schema */river_job'::regclass and c.reltuples >= 0 and m.state = 'completed'
  ) end as estimated
from unnest(enum_range(null::/* schema */river_job_state)) as s (state);

-- name: job_count_state_exact
select count(*) as found from /* schema */river_job where state = :state::text::/* schema */river_job_state;

-- name: job_count_all_capped
select count(*) as found from (select 1 from /* schema */river_job order by id limit :cap::bigint + 1) x;
