drop table /* schema */riverui_error_group;
