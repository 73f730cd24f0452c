-- Stored rows of error groups.

-- part: error_group_columns (error_group_list.columns)
fingerprint, title, first_at as "first_at:time", last_at as "last_at:time", number, sample_job_id, state,
decided_at as "decided_at:time", decided_by, reason, release, old_releases as "old_releases:json",
until_at as "until_at:time", until_rate, until_total, regressed_at as "regressed_at:time";

-- name: error_group_list
select /* columns: */ fingerprint /* :columns */
from riverui_error_group
where fingerprint in (select value from json_each(:fingerprints));

-- name: error_group_turn
-- Transactions that write have their turns already.
select 1 as "ours:bool";

-- name: error_group_see
-- The value of each place in the lists.
insert into riverui_error_group as g (fingerprint, title, first_at, last_at, number, sample_job_id)
select f.value, :titles ->> f.key, :firsts ->> f.key, :lasts ->> f.key, :numbers ->> f.key, :samples ->> f.key
from json_each(:fingerprints) f
where exists (select 1 from riverui_error_group k where k.fingerprint = f.value)
  or (select count(*) from (select 1 from riverui_error_group limit :most)) < :most
order by f.value
on conflict (fingerprint) do update
set title = iif(excluded.last_at > g.last_at, excluded.title, g.title),
  sample_job_id = iif(excluded.last_at > g.last_at, excluded.sample_job_id, g.sample_job_id),
  first_at = min(g.first_at, excluded.first_at), last_at = max(g.last_at, excluded.last_at),
  number = min(g.number, 4611686018427387904) + excluded.number
where excluded.last_at > g.last_at or excluded.first_at < g.first_at;

-- name: error_group_reopen
update riverui_error_group as g
set state = 'unresolved', regressed_at = :regressed ->> e.key
from json_each(:fingerprints) e
where g.fingerprint = e.value and g.decided_at = :decided ->> e.key and g.state <> 'unresolved';

-- name: error_group_decide
insert into riverui_error_group (
  fingerprint, title, first_at, last_at, number, sample_job_id, state, decided_at, decided_by, reason, release,
  old_releases, until_at, until_rate, until_total
)
values (
  :fingerprint, :title, :first_at, :last_at, :number, :sample_job_id, :state, :now, :username, :reason, :release,
  :old_releases, :until_at, :until_rate, :until_total
)
on conflict (fingerprint) do update
set state = excluded.state, decided_at = excluded.decided_at, decided_by = excluded.decided_by,
  reason = excluded.reason, release = excluded.release, old_releases = excluded.old_releases,
  until_at = excluded.until_at, until_rate = excluded.until_rate, until_total = excluded.until_total,
  regressed_at = null
returning /* columns: */ fingerprint /* :columns */;

-- name: error_group_delete_before
delete from riverui_error_group
where fingerprint in (
  select fingerprint from riverui_error_group
  where last_at < :before and (decided_at is null or decided_at < :before)
  order by last_at
  limit :limit
)
returning fingerprint;
