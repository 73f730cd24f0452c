-- Nothing to do on Postgres: its sequences never give an id twice.
select 1;
