-- Dead letters: whole jobs that were discarded and past their retention, apart from the jobs that are worked. The
-- beginning of the last error has its own column, so that lists and searches need not decompress all errors.
create table /* schema */riverui_dead_job (
  id bigint not null,
  unique_key bytea,
  unique_states bit(8),
  attempted_at timestamptz,
  created_at timestamptz not null,
  died_at timestamptz not null default clock_timestamp(),
  finalized_at timestamptz,
  scheduled_at timestamptz not null,
  attempt smallint not null,
  max_attempts smallint not null,
  priority smallint not null,
  kind text not null,
  queue text not null,
  reason text not null default 'discarded',
  state text not null,
  last_error text not null default '',
  args jsonb not null,
  attempted_by text[],
  errors jsonb[],
  metadata jsonb not null,
  tags text[] not null,
  constraint riverui_dead_job_pkey primary key (id),
  constraint riverui_dead_job_reason_known check (reason in ('discarded', 'deleted')),
  constraint riverui_dead_job_lengths check (char_length(last_error) <= 2000)
);

create index riverui_dead_job_died_at on /* schema */riverui_dead_job using btree (died_at, id);
create index riverui_dead_job_kind on /* schema */riverui_dead_job using btree (kind, died_at, id);
create index riverui_dead_job_queue on /* schema */riverui_dead_job using btree (queue, died_at, id);

comment on table /* schema */riverui_dead_job is 'Dead letters: discarded jobs past their retention, kept by riverui';
comment on column /* schema */riverui_dead_job.reason is
  'discarded: its retention was over; deleted: somebody deleted it';
comment on column /* schema */riverui_dead_job.last_error is
  'The beginning of the last error, for lists and searches';
