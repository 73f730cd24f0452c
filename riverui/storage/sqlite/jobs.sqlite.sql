-- Jobs as other blocks need them.

-- part: job_columns (job_get_held.columns)
-- The columns of a whole job, for select lists of other blocks.
j.id as id, j.state as state, j.attempt as attempt, j.max_attempts as max_attempts,
  j.attempted_at as "attempted_at:time", j.created_at as "created_at:time", j.finalized_at as "finalized_at:time",
  j.scheduled_at as "scheduled_at:time", j.priority as priority, json_text(j.args) as args,
  json_text(j.attempted_by) as "attempted_by:texts", json_text(j.errors) as "errors:errors", j.kind as kind,
  json_text(j.metadata) as metadata, j.queue as queue, json_text(j.tags) as "tags:texts", j.unique_key as unique_key,
  j.unique_states as unique_states;

-- name: job_text_piece
-- Part of a text and its whole size, in bytes.
select substr(w.data, :start + 1, :size) as data, length(w.data) as size, w.version
from (
  select cast(t.text as blob) as data, t.version
  from (/* text: */ select kind as text, id as version from river_job /* :text */) t
  where t.text is not null
) w;

-- part: job_select_ids (dead_job_select.terms)
and j.id in (select value from json_each(riverui_list(:value)));

-- part: job_select_kinds (dead_job_select.terms)
and j.kind in (select value from json_each(riverui_list(:value)));

-- part: job_select_priorities (dead_job_select.terms)
and j.priority in (select value from json_each(riverui_list(:value)));

-- part: job_select_queues (dead_job_select.terms)
and j.queue in (select value from json_each(riverui_list(:value)));

-- part: job_select_tags_any (dead_job_select.terms)
and exists (
  select 1 from json_each(json_text(j.tags)) t
  where t.value in (select value from json_each(riverui_list(:value)))
);

-- name: job_get_available
-- Takes chosen jobs. Usual values are not returned, as on Postgres.
update river_job
set state = 'running', attempt = attempt + 1, attempted_at = :now,
  attempted_by = jsonb(
    riverui_newest(/* attempted_by: */ attempted_by /* :attempted_by */, :client_id, :max_attempted_by)
  )
where id in (/* which: */ select 0 where :queue is null /* :which */) and state = 'available' and queue = :queue
returning id, attempt, max_attempts, attempted_at as "attempted_at:time", created_at as "created_at:time",
  scheduled_at as "scheduled_at:time", priority, json_text(args) as args,
  json_text(attempted_by) as "attempted_by:texts", json_text(errors) as "errors:errors", kind,
  json_text(metadata) as metadata, json_text(tags) as "tags:texts", unique_key, unique_states;

-- part: job_claimed (job_get_available.which)
select value from json_each(riverui_list(:ids));

-- part: job_attempted_by (job_get_available.attempted_by)
valid_json(attempted_by);
