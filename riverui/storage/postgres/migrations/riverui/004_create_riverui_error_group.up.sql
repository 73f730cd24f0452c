-- Groups of failed jobs with the same error: when each was seen first and last, and its state.
create table /* schema */riverui_error_group (
  fingerprint text not null,
  title text not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  number bigint not null,
  sample_job_id bigint not null,
  state text not null default 'unresolved',
  decided_at timestamptz,
  decided_by text not null default '',
  reason text not null default '',
  release text not null default '',
  old_releases text[] not null default '{}',
  until_at timestamptz,
  until_rate bigint,
  until_total bigint,
  regressed_at timestamptz,
  constraint riverui_error_group_pkey primary key (fingerprint),
  constraint riverui_error_group_state_known check (state in ('unresolved', 'resolved', 'ignored')),
  constraint riverui_error_group_decided check (state = 'unresolved' or decided_at is not null),
  constraint riverui_error_group_lengths check (
    char_length(fingerprint) between 1 and 100 and char_length(title) <= 1000 and char_length(decided_by) <= 1000
    and char_length(reason) <= 1000 and char_length(release) <= 100 and cardinality(old_releases) <= 100
  )
);

create index riverui_error_group_last_at on /* schema */riverui_error_group using btree (last_at);

comment on table /* schema */riverui_error_group is 'Groups of failed jobs with the same error, kept by riverui';
