drop table riverui_limit;
drop table riverui_producer;
