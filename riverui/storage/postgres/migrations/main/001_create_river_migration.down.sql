drop table /* schema */river_migration;
