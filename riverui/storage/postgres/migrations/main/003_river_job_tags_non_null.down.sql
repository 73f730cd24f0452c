alter table /* schema */river_job
  alter column tags drop not null,
  alter column tags drop default;
