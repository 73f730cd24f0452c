-- part: job_columns (job_get_held.columns)
-- The columns of a whole job, for select lists of other blocks.
j.id as id, j.state as state, j.attempt as attempt, j.max_attempts as max_attempts,
  j.attempted_at as "attempted_at:time", j.created_at as "created_at:time", j.finalized_at as "finalized_at:time",
  j.scheduled_at as "scheduled_at:time", j.priority as priority, json_text(j.args) as args,
  json_text(j.attempted_by) as "attempted_by:texts", json_text(j.errors) as "errors:errors", j.kind as kind,
  json_text(j.metadata) as metadata, j.queue as queue, json_text(j.tags) as "tags:texts", j.unique_key as unique_key,
  j.unique_states as unique_states;
