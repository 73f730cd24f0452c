-- Figures over time: outcomes of the jobs of each kind in each queue, by minute and by coarser steps.
create table /* schema */riverui_rollup (
  bucket timestamptz not null,
  run_sum_us bigint not null default 0,
  run_max_us bigint not null default 0,
  failed_run_sum_us bigint not null default 0,
  failed_run_max_us bigint not null default 0,
  wait_sum_us bigint not null default 0,
  wait_max_us bigint not null default 0,
  completed bigint not null default 0,
  cancelled bigint not null default 0,
  discarded bigint not null default 0,
  failed bigint not null default 0,
  inserted bigint not null default 0,
  oldest_waiting_us bigint,
  waiting integer,
  step integer not null,
  sampled integer not null default 1,
  waiting_capped boolean not null default false,
  queue text not null,
  kind text not null,
  source text not null default '',
  run_bins bytea not null default '',
  failed_run_bins bytea not null default '',
  wait_bins bytea not null default '',
  constraint riverui_rollup_pkey primary key (step, bucket, queue, kind, source),
  constraint riverui_rollup_step_known check (step in (60, 600, 3600, 86400)),
  constraint riverui_rollup_bucket_begins_a_step check (extract(epoch from bucket)::numeric % step = 0),
  constraint riverui_rollup_lengths check (
    char_length(queue) <= 200 and char_length(kind) <= 200 and char_length(source) <= 100
    and octet_length(run_bins) <= 2048 and octet_length(failed_run_bins) <= 2048 and octet_length(wait_bins) <= 2048
  ),
  constraint riverui_rollup_numbers check (
    completed >= 0 and cancelled >= 0 and discarded >= 0 and failed >= 0 and inserted >= 0 and sampled >= 1
    and waiting >= 0 and oldest_waiting_us >= 0
  )
) with (
  fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05
);

create index riverui_rollup_queues on /* schema */riverui_rollup using btree (step, bucket, queue)
  where kind = '' and source = '';

comment on table /* schema */riverui_rollup is 'Figures over time, kept by riverui';
comment on column /* schema */riverui_rollup.step is
  'Seconds from the beginning of the bucket to its end';
comment on column /* schema */riverui_rollup.queue is
  'Empty for all queues together; * for those that are not told apart';
comment on column /* schema */riverui_rollup.kind is
  'Empty for all kinds together; * for those that are not told apart';
comment on column /* schema */riverui_rollup.source is
  'Empty for what was read from the rows; else the client that told it';
comment on column /* schema */riverui_rollup.sampled is
  'One in so many jobs was read, and counts were multiplied by it';
comment on column /* schema */riverui_rollup.run_bins is
  'Bytes of a count; then a byte a bin: ceil(log(us) / log(1.105)) - 70; then their counts, little-endian';
