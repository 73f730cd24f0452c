-- Workflows: jobs that wait for one another. A task is one job; an edge is one wait. A task's row counts its
-- remaining waits, so that the end of a job reads its own edges only.
create table /* schema */riverui_workflow (
  id text not null,
  name text not null default '',
  attempt integer not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  open integer not null default 0,
  ended_at timestamptz,
  cancelled_at timestamptz,
  retried_at timestamptz,
  parent_job_id bigint,
  constraint riverui_workflow_pkey primary key (id),
  constraint riverui_workflow_numbers check (attempt >= 1 and open >= 0),
  constraint riverui_workflow_lengths check (char_length(id) between 1 and 128 and char_length(name) <= 1000)
) with (fillfactor = 70);

create index riverui_workflow_open on /* schema */riverui_workflow using btree (id) where ended_at is null;
create index riverui_workflow_ended on /* schema */riverui_workflow using btree (ended_at) where ended_at is not null;
create index riverui_workflow_parent on /* schema */riverui_workflow using btree (parent_job_id)
  where parent_job_id is not null;

create table /* schema */riverui_workflow_task (
  workflow_id text not null,
  name text not null,
  job_id bigint not null,
  waits_for integer not null default 0,
  state text not null default 'waiting',
  ignored text not null default '',
  wait jsonb,
  created_at timestamptz not null default clock_timestamp(),
  staged_at timestamptz,
  ended_at timestamptz,
  constraint riverui_workflow_task_pkey primary key (workflow_id, name),
  constraint riverui_workflow_task_state_known check (
    state in ('waiting', 'wait', 'staged', 'completed', 'cancelled', 'discarded', 'deleted')
  ),
  constraint riverui_workflow_task_numbers check (waits_for >= 0),
  constraint riverui_workflow_task_lengths check (
    char_length(name) between 1 and 200 and octet_length(wait::text) <= 65536 and char_length(ignored) <= 3
  )
) with (fillfactor = 70);

create unique index riverui_workflow_task_job on /* schema */riverui_workflow_task using btree (job_id);
create index riverui_workflow_task_staged on /* schema */riverui_workflow_task using btree (job_id)
  where state = 'staged';

create table /* schema */riverui_workflow_edge (
  workflow_id text not null,
  dependency text not null,
  task text not null,
  constraint riverui_workflow_edge_pkey primary key (workflow_id, dependency, task)
);

create index riverui_workflow_edge_task on /* schema */riverui_workflow_edge using btree (task, workflow_id);

comment on table /* schema */riverui_workflow is 'Workflows, kept by riverui';
comment on column /* schema */riverui_workflow.open is 'Tasks that have not ended';
comment on column /* schema */riverui_workflow.parent_job_id is 'The job that waits for all of it';
comment on table /* schema */riverui_workflow_task is 'Tasks of workflows, a job each, kept by riverui';
comment on column /* schema */riverui_workflow_task.state is
  'waiting: for other tasks; wait: for signals, timers or terms; staged: the job runs its course; then how it ended';
comment on column /* schema */riverui_workflow_task.waits_for is 'Other tasks that have not ended well yet';
comment on column /* schema */riverui_workflow_task.ignored is
  'How tasks that it waits for may fail and count as done all the same: c(ancelled), d(iscarded), x (deleted)';
comment on table /* schema */riverui_workflow_edge is 'Which task of a workflow waits for which, kept by riverui';
