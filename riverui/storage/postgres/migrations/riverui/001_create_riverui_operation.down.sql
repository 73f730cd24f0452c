drop table /* schema */riverui_operation;
