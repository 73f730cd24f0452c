alter table /* schema */river_job alter column tags set default '{}';
update /* schema */river_job set tags = '{}' where tags is null;
alter table /* schema */river_job alter column tags set not null;
