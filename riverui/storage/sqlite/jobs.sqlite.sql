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
