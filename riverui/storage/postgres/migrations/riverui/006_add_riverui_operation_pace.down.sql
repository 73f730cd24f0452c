alter table /* schema */riverui_operation drop column pace, drop column watch;
