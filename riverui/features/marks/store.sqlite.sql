-- Marks: at most one for each label and minute; the first insert wins.

-- part: mark_columns (mark_list.columns)
at as "at:time", label, release, url, username as user;

-- name: mark_turn
-- Transactions that write have their turns already.
select 1 as locked;

-- name: mark_near
select /* columns: */ at /* :columns */
from riverui_mark
where label = :label
  and at between riverui_after(substr(coalesce(:at, :now), 1, 17) || '00.000', -:within)
    and riverui_after(substr(coalesce(:at, :now), 1, 17) || '00.000', :within)
order by at
limit 1;

-- name: mark_insert
insert into riverui_mark (at, created_at, label, release, url, username)
values (substr(coalesce(:at, :now), 1, 17) || '00.000', :now, :label, :release, :url, :username)
on conflict (at, label) do update set label = excluded.label
returning /* columns: */ at /* :columns */;

-- name: mark_of_release
select /* columns: */ at /* :columns */
from riverui_mark
where release = :release or label = :release
order by at desc
limit 1;

-- name: mark_list
select /* columns: */ at /* :columns */
from riverui_mark
where at >= :since and at < :until
order by at desc, label desc
limit :limit;

-- name: mark_delete_before
delete from riverui_mark
where (at, label) in (select at, label from riverui_mark where at < :before order by at limit :limit)
returning label;
