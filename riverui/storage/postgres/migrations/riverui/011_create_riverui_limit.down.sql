drop table /* schema */riverui_producer;
drop table /* schema */riverui_limit;
