drop table riverui_rate;
