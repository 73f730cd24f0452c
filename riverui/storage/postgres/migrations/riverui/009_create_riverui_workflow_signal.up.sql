-- Signals sent to workflows, and the state of the waits of their tasks. A signal belongs to one attempt of its workflow
-- and never changes. Signals of one workflow are written one after the other, so that their ids are in the order in
-- which they become visible.
create table /* schema */riverui_workflow_signal (
  id bigserial not null,
  workflow_id text not null,
  attempt integer not null,
  key text not null,
  payload jsonb not null default 'null',
  source jsonb not null default 'null',
  idempotency_key text,
  bytes integer not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  constraint riverui_workflow_signal_pkey primary key (id),
  constraint riverui_workflow_signal_numbers check (attempt >= 1),
  constraint riverui_workflow_signal_lengths check (
    char_length(workflow_id) between 1 and 128 and char_length(key) between 1 and 200
    and char_length(idempotency_key) between 1 and 200
  )
);

create index riverui_workflow_signal_key on /* schema */riverui_workflow_signal
  using btree (workflow_id, attempt, key, id);
create unique index riverui_workflow_signal_idempotency_key on /* schema */riverui_workflow_signal
  using btree (workflow_id, attempt, idempotency_key) where idempotency_key is not null;

-- The worklist: a task is due when it begins to wait, when its signal arrives and when its timer fires. Other tasks
-- cost nothing.
alter table /* schema */riverui_workflow_task
  add column wait_due_at timestamptz not null default 'epoch',
  add column wait_changes bigint not null default 0,
  add column wait_progress jsonb not null default '{}';

create index riverui_workflow_task_wait on /* schema */riverui_workflow_task using btree (wait_due_at)
  where state = 'wait';

comment on table /* schema */riverui_workflow_signal is 'Signals sent to workflows, kept by riverui';
comment on column /* schema */riverui_workflow_signal.bytes is 'Of payload and source as text';
comment on column /* schema */riverui_workflow_task.wait_due_at is 'When a waiting task is to be looked at next';
comment on column /* schema */riverui_workflow_task.wait_changes is 'Counts how often what was found was written';
comment on column /* schema */riverui_workflow_task.wait_progress is
  'What was found of the wait: the attempt, signals counted and those matched, an error';
