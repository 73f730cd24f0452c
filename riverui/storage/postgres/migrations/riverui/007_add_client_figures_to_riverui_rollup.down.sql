drop index /* schema */riverui_rollup_clients;

delete from /* schema */riverui_rollup where source <> '';

alter table /* schema */riverui_rollup drop column snoozed, drop column interrupted;
