drop table /* schema */riverui_lease;
drop table /* schema */riverui_incident;
