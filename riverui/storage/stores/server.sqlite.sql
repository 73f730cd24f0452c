-- name: migration_table_exists
select exists (select 1 from sqlite_master where name = 'river_migration') as found;

-- name: migration_list
select line, version, created_at as "created_at:time" from river_migration order by line, version;

-- name: server_get
select sqlite_version() as version, file as database, '' as user, name as schema
from pragma_database_list
where name = 'main';

-- name: server_settings
select 'journal_mode' as name, journal_mode as value from pragma_journal_mode
union all
select 'synchronous', case synchronous when 0 then 'off' when 1 then 'normal' when 2 then 'full' else 'extra' end
from pragma_synchronous
union all
select 'pages', page_count || ' of ' || page_size || ' bytes, ' || freelist_count || ' of them free'
from pragma_page_count, pragma_page_size, pragma_freelist_count
union all
select 'auto_vacuum', case auto_vacuum when 0 then 'off' when 1 then 'full' else 'incremental' end
from pragma_auto_vacuum;
