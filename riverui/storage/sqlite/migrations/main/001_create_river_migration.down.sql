drop table river_migration;
