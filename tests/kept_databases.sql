-- What lets tests use one database after another: it notes whether its tables were changed, and empties itself.
drop schema if exists test_database cascade;
create schema test_database;
create table test_database.changes (tag text not null);
create table test_database.first_rows (relation regclass primary key, checksum text not null);

create function test_database.note_change() returns event_trigger language plpgsql security definer as $$
begin
    insert into test_database.changes values (tg_tag);
end
$$;

create function test_database.relations(kind "char") returns setof regclass language sql stable as $$
    select oid::regclass from pg_class
    where relkind = kind and oid >= 16384 and relpersistence <> 't'
        and relnamespace not in ('test_database'::regnamespace, 'pg_toast'::regnamespace)
$$;

create function test_database.checksum(relation regclass) returns text language plpgsql stable as $$
declare
    checksum text;
begin
    execute format('select md5(string_agg(each::text, '','' order by each::text)) from %s each', relation) into checksum;
    return checksum;
end
$$;

-- Returns false where the database cannot be used again.
create function test_database.emptied() returns boolean language plpgsql as $$
declare
    filled regclass[] := '{}';
    relation regclass;
    has_rows boolean;
begin
    if exists (select from test_database.changes) or exists (
        select from pg_db_role_setting join pg_database on pg_database.oid = setdatabase where datname = current_database()
    ) or exists (
        select from test_database.first_rows each where checksum is distinct from test_database.checksum(each.relation)
    ) then
        return false;
    end if;
    for relation in
        select oid from test_database.relations('r') oid
        where oid not in (select each.relation from test_database.first_rows each)
    loop
        execute format('select exists (select from %s)', relation) into has_rows;
        if has_rows then
            filled := filled || relation;
        end if;
    end loop;
    if filled <> '{}' then
        execute 'truncate ' || array_to_string(filled, ', ');
        delete from pg_statistic where starelid = any (filled);
    end if;
    for relation in select test_database.relations('S') loop
        perform setval(relation, seqstart, false) from pg_sequence where seqrelid = relation;
    end loop;
    return true;
end
$$;

insert into test_database.first_rows
select * from (
    select oid, test_database.checksum(oid) as checksum from test_database.relations('r') oid
) tables where checksum is not null;

create event trigger test_database_note_change on ddl_command_end execute function test_database.note_change();
