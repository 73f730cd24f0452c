-- Alerts that were sent of incidents, and silences.

-- name: alert_list
select a.incident, a.destination, a.sent, a.wanted, a.number, a.tries, a.at
from /* schema */riverui_alert a
where a.incident = any(:incidents::text[]);

-- name: alert_save
-- Changes nothing if another dashboard has changed it meanwhile.
insert into /* schema */riverui_alert as a (incident, destination, sent, wanted, number, tries, at)
select i.id, :destination::text, :sent::text, :wanted::text, :number::bigint, :tries::bigint, :at::timestamptz
from /* schema */riverui_incident i
where i.id = :incident::text
on conflict (incident, destination) do update
set sent = excluded.sent, wanted = excluded.wanted, number = excluded.number, tries = excluded.tries, at = excluded.at
where a.wanted = :wanted_before::text and a.number = :number_before::bigint and a.tries = :tries_before::bigint
returning a.incident;

-- name: silence_list
select s.id, s.incident, s.cause, s.subject_is, s.subject, s.until, s.made_at, s.made_by, s.reason
from /* schema */riverui_silence s
where s.until > coalesce(:since::timestamptz, clock_timestamp())
order by s.until desc
limit :limit::bigint;

-- name: silence_insert
insert into /* schema */riverui_silence (id, incident, cause, subject_is, subject, until, made_at, made_by, reason)
values (
  :id::text, :incident::text, :cause::text, :subject_is::text, :subject::text, :until::timestamptz,
  :made_at::timestamptz, :made_by::text, :reason::text
);

-- name: silence_end
update /* schema */riverui_silence s
set until = clock_timestamp()
where s.id = :id::text and s.until > clock_timestamp()
returning s.id;
