drop table /* schema */riverui_mark;
