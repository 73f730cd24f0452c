drop table /* schema */riverui_dead_job;
