-- Alerts that were sent of incidents, and silences.

-- name: alert_list
select incident, destination, sent, wanted, number, tries, at as "at:time"
from riverui_alert
where incident in (select value from json_each(:incidents));

-- name: alert_save
-- Changes nothing if another dashboard has changed it meanwhile.
insert into riverui_alert as a (incident, destination, sent, wanted, number, tries, at)
select i.id, :destination, :sent, :wanted, :number, :tries, :at
from riverui_incident i
where i.id = :incident
on conflict (incident, destination) do update
set sent = excluded.sent, wanted = excluded.wanted, number = excluded.number, tries = excluded.tries, at = excluded.at
where a.wanted = :wanted_before and a.number = :number_before and a.tries = :tries_before
returning incident;

-- name: silence_list
select id, incident, cause, subject_is, subject, until as "until:time", made_at as "made_at:time", made_by, reason
from riverui_silence
where until > coalesce(:since, :now)
order by riverui_silence.until desc
limit :limit;

-- name: silence_insert
insert into riverui_silence (id, incident, cause, subject_is, subject, until, made_at, made_by, reason)
values (:id, :incident, :cause, :subject_is, :subject, :until, :made_at, :made_by, :reason);

-- name: silence_end
update riverui_silence set until = :now where id = :id and until > :now returning id;
