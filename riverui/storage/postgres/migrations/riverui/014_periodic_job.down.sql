drop table /* schema */riverui_periodic_job;
