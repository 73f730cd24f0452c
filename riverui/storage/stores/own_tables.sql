-- name: table_name_list
-- Sequences of an older migration lack a column; all of riverui's tables then count as missing.
select c.relname::text as name
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relname = any(:names::text[])
  and (c.relname <> 'riverui_sequence' or exists (
    select from pg_attribute a where a.attrelid = c.oid and a.attname = 'dry' and not a.attisdropped
  ))
  and case when :schema::text is null then pg_table_is_visible(c.oid) else n.nspname = :schema::text end;

