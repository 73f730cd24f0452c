drop table /* schema */riverui_rate;
