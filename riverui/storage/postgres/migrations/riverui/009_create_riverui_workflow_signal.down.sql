drop index /* schema */riverui_workflow_task_wait;
alter table /* schema */riverui_workflow_task
  drop column wait_due_at,
  drop column wait_changes,
  drop column wait_progress;
drop table /* schema */riverui_workflow_signal;
