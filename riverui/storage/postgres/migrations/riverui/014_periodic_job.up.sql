-- Durable periodic jobs: the next run of each, and changes made to it on the dashboard or by a program.
create table /* schema */riverui_periodic_job (
  id text not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  next_run_at timestamptz,
  paused_at timestamptz,
  run_requested_at timestamptz,
  changed_at timestamptz,
  changed_by text not null default '',
  program_schedule text not null default '',
  schedule text not null default '',
  constraint riverui_periodic_job_pkey primary key (id),
  constraint riverui_periodic_job_lengths check (
    char_length(id) between 1 and 128 and char_length(changed_by) <= 200 and char_length(program_schedule) <= 200
    and char_length(schedule) <= 200
  )
) with (fillfactor = 50);

comment on table /* schema */riverui_periodic_job is 'Durable periodic jobs, kept by riverui';
comment on column /* schema */riverui_periodic_job.next_run_at is
  'Empty until the leader has worked it out: at first, and after a change of the schedule';
comment on column /* schema */riverui_periodic_job.updated_at is
  'When a leader last knew the job';
comment on column /* schema */riverui_periodic_job.schedule is
  'A cron expression instead of the program''s schedule; empty for the program''s own';
