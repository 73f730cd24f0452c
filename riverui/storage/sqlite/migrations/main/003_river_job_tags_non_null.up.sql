-- River's version of this number changes only Postgres.
select 1;
