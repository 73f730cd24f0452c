-- Incidents, and the lease of the dashboard that opens and closes them.

-- part: incident_columns (incident_get.columns)
i.id, i.found_at, i.opened_at, i.seen_at, i.good_since, i.closed_at, i.cause, left(i.subject_is, 100) as subject_is,
i.subject, i.level, i.title, i.headline, i.facts::text as facts, i.deeds::text as deeds, i.note, i.noted_at,
i.noted_by;

-- name: lease_take
insert into /* schema */riverui_lease as l (name, holder, held_until)
values (:name::text, :holder::text, clock_timestamp() + make_interval(secs => :term::float8))
on conflict (name) do update set holder = excluded.holder, held_until = excluded.held_until
where l.holder = excluded.holder or l.held_until < clock_timestamp()
returning l.name;

-- name: lease_held
select l.name from /* schema */riverui_lease l where l.name = :name::text and l.held_until >= clock_timestamp();

-- name: lease_release
delete from /* schema */riverui_lease l where l.name = :name::text and l.holder = :holder::text returning l.name;

-- name: incident_get
select /* columns: */ i.id /* :columns */ from /* schema */riverui_incident i where i.id = :id::text;

-- name: incident_list
select /* columns: */ i.id /* :columns */
from /* schema */riverui_incident i
where (i.closed_at is null or i.closed_at >= :since::timestamptz)
  and (i.opened_at, i.id) < (:opened_at::timestamptz, :id::text)
order by i.opened_at desc, i.id desc
limit :limit::bigint;

-- name: incident_open_list
select /* columns: */ i.id /* :columns */
from /* schema */riverui_incident i
where i.closed_at is null
order by i.opened_at desc, i.id desc
limit :limit::bigint;

-- name: incident_save
insert into /* schema */riverui_incident as i (
  id, found_at, opened_at, seen_at, good_since, closed_at, cause, subject_is, subject, level, title, headline, facts
)
values (
  :id::text, :found_at::timestamptz, :opened_at::timestamptz, :seen_at::timestamptz, :good_since::timestamptz,
  :closed_at::timestamptz, :cause::text, :subject_is::text, :subject::text, :level::text, :title::text,
  :headline::text, :facts::text::jsonb
)
on conflict (id) do update
set seen_at = excluded.seen_at, good_since = excluded.good_since, closed_at = excluded.closed_at,
  cause = excluded.cause, subject_is = excluded.subject_is, subject = excluded.subject, level = excluded.level,
  title = excluded.title, headline = excluded.headline, facts = excluded.facts
returning i.id;

-- name: incident_note
update /* schema */riverui_incident i
set note = :note::text, noted_at = clock_timestamp(), noted_by = :username::text
where i.id = :id::text
returning /* columns: */ i.id /* :columns */;

-- name: incident_deed
update /* schema */riverui_incident i
set deeds = i.deeds || :deeds::text::jsonb
where i.closed_at is null and jsonb_array_length(i.deeds) < :most::bigint
returning i.id;

-- name: incident_delete_before
with deleted as (
  delete from /* schema */riverui_incident i
  where i.id = any(array(
    select c.id
    from /* schema */riverui_incident c
    where c.closed_at < :before::timestamptz
    order by c.closed_at
    limit :limit::bigint
  ))
  returning i.id
),
deleted_alerts as (
  delete from /* schema */riverui_alert a using deleted d where a.incident = d.id
)
select d.id from deleted d;
