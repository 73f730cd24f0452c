-- Marks: at most one for each label and minute; the first insert wins.

-- part: mark_columns (mark_list.columns)
m.at, m.label, m.release, m.url, m.username as "user";

-- name: mark_turn
-- One transaction at a time looks for the label and inserts it.
select pg_advisory_xact_lock(hashtext(concat(coalesce(:schema::text, current_schema()), '.riverui_mark'))) as locked;

-- name: mark_near
select /* columns: */ m.at /* :columns */
from /* schema */riverui_mark m,
  date_trunc('minute', coalesce(:at::timestamptz, clock_timestamp()), 'UTC') as asked (at)
where m.label = :label::text
  and m.at between asked.at - make_interval(secs => :within::float8)
    and asked.at + make_interval(secs => :within::float8)
order by m.at
limit 1;

-- name: mark_insert
insert into /* schema */riverui_mark as m (at, label, release, url, username)
values (
  date_trunc('minute', coalesce(:at::timestamptz, clock_timestamp()), 'UTC'), :label::text, :release::text, :url::text,
  :username::text
)
on conflict (at, label) do update set label = excluded.label
returning /* columns: */ m.at /* :columns */;

-- name: mark_of_release
select /* columns: */ m.at /* :columns */
from /* schema */riverui_mark m
where m.release = :release::text or m.label = :release::text
order by m.at desc
limit 1;

-- name: mark_list
select /* columns: */ m.at /* :columns */
from /* schema */riverui_mark m
where m.at >= :since::timestamptz and m.at < :until::timestamptz
order by m.at desc, m.label desc
limit :limit::bigint;

-- name: mark_delete_before
delete from /* schema */riverui_mark m
where (m.at, m.label) in (
  select o.at, o.label
  from /* schema */riverui_mark o
  where o.at < :before::timestamptz
  order by o.at
  limit :limit::bigint
)
returning m.label;
