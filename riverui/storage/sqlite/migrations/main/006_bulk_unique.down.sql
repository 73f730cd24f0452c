drop table river_job;
create table river_job (id integer primary key);
