-- name: table_name_list
select name from sqlite_master where type = 'table' and name like 'riverui!_%' escape '!';
