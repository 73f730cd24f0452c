-- Sequences: jobs with one key that run one at a time, in the order of their ids. A key has a row while it has a job at
-- its head or its last one has just ended; the jobs behind the head are pending, a row each.
-- A transaction that changes a head locks the key's row "for no key update". One that adds jobs behind it locks the row
-- "for key share", so that it stays until the jobs are visible; the row is removed under a lock "for update" only,
-- which waits for all of these.
-- Each page has enough free space for new heads of all its keys at once without a write to the index.
-- Keys are compared by their bytes, which costs a tenth of a comparison by a language's order.
create table /* schema */riverui_sequence (
  seq_key text collate "C" not null,
  head_id bigint,
  halted_at timestamptz,
  constraint riverui_sequence_pkey primary key (seq_key),
  constraint riverui_sequence_lengths check (char_length(seq_key) between 1 and 200)
) with (fillfactor = 45);

create index riverui_sequence_dry on /* schema */riverui_sequence using btree (seq_key) where head_id is null;

create table /* schema */riverui_sequence_job (
  seq_key text collate "C" not null,
  job_id bigint not null,
  constraint riverui_sequence_job_pkey primary key (seq_key, job_id)
);

comment on table /* schema */riverui_sequence is 'Keys of sequences, whose jobs run one at a time, kept by riverui';
comment on column /* schema */riverui_sequence.head_id is
  'The job that the others wait for; null where a key was just left, or its next job is to be looked for';
comment on column /* schema */riverui_sequence.halted_at is
  'Since when the head, cancelled or discarded, holds up the others';
comment on table /* schema */riverui_sequence_job is 'Jobs that wait behind the heads of sequences, kept by riverui';
