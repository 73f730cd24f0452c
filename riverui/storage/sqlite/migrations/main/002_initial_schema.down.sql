drop table river_leader;
drop table river_job;
