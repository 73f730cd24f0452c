drop table /* schema */riverui_workflow_edge;
drop table /* schema */riverui_workflow_task;
drop table /* schema */riverui_workflow;
