drop table /* schema */river_job;
drop function /* schema */river_job_notify;
drop type /* schema */river_job_state;
drop table /* schema */river_leader;
