-- Incidents, and the lease of the dashboard that opens and closes them.

-- part: incident_columns (incident_get.columns)
id, found_at as "found_at:time", opened_at as "opened_at:time", seen_at as "seen_at:time",
good_since as "good_since:time", closed_at as "closed_at:time", cause, substr(subject_is, 1, 100) as subject_is,
subject, level, title, headline, facts, deeds, note, noted_at as "noted_at:time", noted_by;

-- name: lease_take
insert into riverui_lease as l (name, holder, held_until)
values (:name, :holder, riverui_after(:now, :term))
on conflict (name) do update set holder = excluded.holder, held_until = excluded.held_until
where l.holder = excluded.holder or l.held_until < :now
returning name;

-- name: lease_held
select name from riverui_lease where name = :name and held_until >= :now;

-- name: lease_release
delete from riverui_lease where name = :name and holder = :holder returning name;

-- name: incident_get
select /* columns: */ id /* :columns */ from riverui_incident where id = :id;

-- name: incident_list
select /* columns: */ id /* :columns */
from riverui_incident
where (closed_at is null or closed_at >= :since)
  and (opened_at, id) < (:opened_at, :id)
order by opened_at desc, id desc
limit :limit;

-- name: incident_open_list
select /* columns: */ id /* :columns */
from riverui_incident
where closed_at is null
order by opened_at desc, id desc
limit :limit;

-- name: incident_save
insert into riverui_incident (
  id, found_at, opened_at, seen_at, good_since, closed_at, cause, subject_is, subject, level, title, headline, facts
)
values (
  :id, :found_at, :opened_at, :seen_at, :good_since, :closed_at, :cause, :subject_is, :subject, :level, :title,
  :headline, :facts
)
on conflict (id) do update
set seen_at = excluded.seen_at, good_since = excluded.good_since, closed_at = excluded.closed_at,
  cause = excluded.cause, subject_is = excluded.subject_is, subject = excluded.subject, level = excluded.level,
  title = excluded.title, headline = excluded.headline, facts = excluded.facts
returning id;

-- name: incident_note
update riverui_incident
set note = :note, noted_at = :now, noted_by = :username
where id = :id
returning /* columns: */ id /* :columns */;

-- name: incident_deed
update riverui_incident
set deeds = (
  select json_group_array(json(d.value))
  from (select value from json_each(riverui_incident.deeds) union all select value from json_each(:deeds)) d
)
where closed_at is null and json_array_length(deeds) < :most
returning id;

-- name: incident_delete_before
delete from riverui_alert
where incident in (select id from riverui_incident where closed_at < :before order by closed_at limit :limit);
delete from riverui_incident
where id in (select id from riverui_incident where closed_at < :before order by closed_at limit :limit)
returning id;
