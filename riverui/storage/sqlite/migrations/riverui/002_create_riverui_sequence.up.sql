-- Sequences, as on Postgres. Two columns hold what the statements of one change pass on: how the head stands, and which
-- job comes next.
create table riverui_sequence (
  seq_key text not null primary key,
  head_id integer,
  halted_at text,
  stands text not null default '',
  next_id integer,
  constraint riverui_sequence_lengths check (length(seq_key) between 1 and 200)
) without rowid;

create index riverui_sequence_dry on riverui_sequence (seq_key) where head_id is null;

create table riverui_sequence_job (
  seq_key text not null,
  job_id integer not null,
  constraint riverui_sequence_job_pkey primary key (seq_key, job_id)
) without rowid;
