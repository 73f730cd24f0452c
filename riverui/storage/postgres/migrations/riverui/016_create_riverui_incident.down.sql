drop table /* schema */riverui_silence;
drop table /* schema */riverui_alert;
drop table /* schema */riverui_lease;
drop table /* schema */riverui_incident;
