-- The tables of riverui, with the columns that they have on Postgres. Times are texts in UTC with milliseconds, as in
-- River's tables; JSON is text.
create table riverui_mark (
  at text not null,
  created_at text not null,
  label text not null,
  release text not null default '',
  url text not null default '',
  username text not null default '',
  constraint riverui_mark_pkey primary key (at, label),
  constraint riverui_mark_lengths check (
    length(label) between 1 and 200 and length(release) <= 200 and length(url) <= 2000 and length(username) <= 200
  )
);

create table riverui_error_group (
  fingerprint text not null primary key,
  title text not null,
  first_at text not null,
  last_at text not null,
  number integer not null,
  sample_job_id integer not null,
  state text not null default 'unresolved',
  decided_at text,
  decided_by text not null default '',
  reason text not null default '',
  release text not null default '',
  old_releases text not null default '[]',
  until_at text,
  until_rate integer,
  until_total integer,
  regressed_at text,
  constraint riverui_error_group_state_known check (state in ('unresolved', 'resolved', 'ignored')),
  constraint riverui_error_group_decided check (state = 'unresolved' or decided_at is not null)
);

create index riverui_error_group_last_at on riverui_error_group (last_at);

create table riverui_periodic_job (
  id text not null primary key,
  created_at text not null,
  updated_at text not null,
  next_run_at text,
  paused_at text,
  run_requested_at text,
  changed_at text,
  changed_by text not null default '',
  program_schedule text not null default '',
  schedule text not null default '',
  constraint riverui_periodic_job_lengths check (length(id) between 1 and 128 and length(schedule) <= 200)
);

-- Seconds in heartbeat_interval.
create table riverui_client (
  id text not null,
  registered_at text not null,
  started_at text not null,
  heartbeat_at text not null,
  heartbeat_interval real not null,
  host text not null default '',
  pid integer not null default 0,
  language text not null default '',
  version text not null default '',
  release text not null default '',
  queues text not null default '{}',
  periodic text not null default '{}',
  running integer not null default 0,
  loop_lag real,
  memory integer,
  declared_dead_at text,
  declared_dead_by text,
  rescued_at text,
  rescued integer not null default 0,
  constraint riverui_client_pkey primary key (id, registered_at),
  constraint riverui_client_interval_positive check (heartbeat_interval > 0),
  constraint riverui_client_dead_before_rescued check (rescued_at is null or declared_dead_at is not null)
);

create table riverui_operation (
  id text not null primary key,
  created_at text not null,
  ended_at text,
  status text not null default 'running',
  verb text not null,
  parameters text not null default '{}',
  features text not null default '',
  username text not null default '',
  allowed text not null,
  query text not null,
  sort text not null,
  cutoff_id integer not null,
  cutoff_at text not null,
  total integer not null,
  total_kind text not null,
  changed integer not null default 0,
  requested integer not null default 0,
  skipped text not null default '{}',
  cursor_at text,
  cursor_id integer,
  stopped_by text,
  error text not null default '',
  holder text,
  fence integer not null default 0,
  held_until text not null,
  pace text not null default '{}',
  watch text,
  constraint riverui_operation_status_known check (status in ('running', 'stopping', 'done', 'stopped', 'failed')),
  constraint riverui_operation_ended_where_status_says check ((ended_at is null) = (status in ('running', 'stopping')))
);

create index riverui_operation_newest on riverui_operation (created_at, id);
create index riverui_operation_unfinished on riverui_operation (created_at) where ended_at is null;
create index riverui_operation_ended_at on riverui_operation (ended_at) where ended_at is not null;

create table riverui_rollup (
  step integer not null,
  bucket text not null,
  queue text not null,
  kind text not null,
  source text not null default '',
  completed integer not null default 0,
  cancelled integer not null default 0,
  discarded integer not null default 0,
  failed integer not null default 0,
  snoozed integer not null default 0,
  interrupted integer not null default 0,
  inserted integer not null default 0,
  cpu_us integer not null default 0,
  cpu_attempts integer not null default 0,
  run_sum_us integer not null default 0,
  run_max_us integer not null default 0,
  failed_run_sum_us integer not null default 0,
  failed_run_max_us integer not null default 0,
  wait_sum_us integer not null default 0,
  wait_max_us integer not null default 0,
  waiting integer,
  oldest_waiting_us integer,
  sampled integer not null default 1,
  waiting_capped integer not null default 0,
  run_bins blob not null default x'',
  failed_run_bins blob not null default x'',
  wait_bins blob not null default x'',
  constraint riverui_rollup_pkey primary key (step, bucket, queue, kind, source),
  constraint riverui_rollup_step_known check (step in (60, 600, 3600, 86400))
) without rowid;

create index riverui_rollup_queues on riverui_rollup (step, bucket, queue) where kind = '' and source = '';
create index riverui_rollup_clients on riverui_rollup (bucket) where source <> '';

create table riverui_incident (
  id text not null primary key,
  found_at text not null,
  opened_at text not null,
  seen_at text not null,
  good_since text,
  closed_at text,
  cause text not null,
  subject_is text not null default '',
  subject text not null default '',
  level text not null,
  title text not null,
  headline text not null default '',
  facts text not null default '{}',
  deeds text not null default '[]',
  note text not null default '',
  noted_at text,
  noted_by text not null default '',
  constraint riverui_incident_level_known check (level in ('warn', 'critical'))
);

create index riverui_incident_newest on riverui_incident (opened_at, id);
create index riverui_incident_open on riverui_incident (opened_at, id) where closed_at is null;

create table riverui_lease (
  name text not null primary key,
  holder text not null,
  held_until text not null
);

create table riverui_alert (
  incident text not null,
  destination text not null,
  sent text not null default '',
  wanted text not null default '',
  number integer not null default 0,
  tries integer not null default 0,
  at text not null,
  constraint riverui_alert_pkey primary key (incident, destination)
);

create table riverui_silence (
  id text not null primary key,
  incident text not null default '',
  cause text not null default '',
  subject_is text not null default '',
  subject text not null default '',
  until text not null,
  made_at text not null,
  made_by text not null default '',
  reason text not null default ''
);

create index riverui_silence_until on riverui_silence (until);

create table riverui_dead_job (
  id integer not null primary key,
  args blob not null,
  attempt integer not null,
  attempted_at text,
  attempted_by blob,
  created_at text not null,
  died_at text not null,
  errors blob,
  finalized_at text,
  kind text not null,
  last_error text not null default '',
  max_attempts integer not null,
  metadata blob not null,
  priority integer not null,
  queue text not null,
  reason text not null default 'discarded',
  scheduled_at text not null,
  state text not null,
  tags blob not null,
  unique_key blob,
  unique_states integer,
  constraint riverui_dead_job_reason_known check (reason in ('discarded', 'deleted'))
);

create index riverui_dead_job_died_at on riverui_dead_job (died_at, id);
create index riverui_dead_job_kind on riverui_dead_job (kind, died_at, id);
create index riverui_dead_job_queue on riverui_dead_job (queue, died_at, id);
