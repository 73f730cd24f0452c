-- Stored rows of error groups.

-- part: error_group_columns (error_group_list.columns)
g.fingerprint, g.title, g.first_at, g.last_at, g.number, g.sample_job_id, g.state, g.decided_at, g.decided_by,
g.reason, g.release, g.old_releases, g.until_at, g.until_rate, g.until_total, g.regressed_at;

-- name: error_group_list
select /* columns: */ g.fingerprint /* :columns */
from /* schema */riverui_error_group g
where g.fingerprint = any(:fingerprints::text[]);

-- name: error_group_turn
select pg_try_advisory_xact_lock(
  hashtext(concat(coalesce(:schema::text, current_schema()), '.riverui_error_group'))
) as ours;

-- name: error_group_see
insert into /* schema */riverui_error_group as g (fingerprint, title, first_at, last_at, number, sample_job_id)
select s.fingerprint, s.title, s.first_at, s.last_at, s.number, s.sample_job_id
from unnest(
  :fingerprints::text[], :titles::text[], :firsts::timestamptz[], :lasts::timestamptz[], :numbers::bigint[],
  :samples::bigint[]
) as s (fingerprint, title, first_at, last_at, number, sample_job_id)
where exists (select 1 from /* schema */riverui_error_group k where k.fingerprint = s.fingerprint)
  or (select count(*) from (select 1 from /* schema */riverui_error_group k limit :most::bigint) m) < :most::bigint
order by s.fingerprint
on conflict (fingerprint) do update
set title = case when excluded.last_at > g.last_at then excluded.title else g.title end,
  sample_job_id = case when excluded.last_at > g.last_at then excluded.sample_job_id else g.sample_job_id end,
  first_at = least(g.first_at, excluded.first_at), last_at = greatest(g.last_at, excluded.last_at),
  number = least(g.number, 4611686018427387904) + excluded.number
where excluded.last_at > g.last_at or excluded.first_at < g.first_at;

-- name: error_group_reopen
update /* schema */riverui_error_group g
set state = 'unresolved', regressed_at = e.regressed_at
from unnest(:fingerprints::text[], :decided::timestamptz[], :regressed::timestamptz[])
  as e (fingerprint, decided_at, regressed_at)
where g.fingerprint = e.fingerprint and g.decided_at = e.decided_at and g.state <> 'unresolved';

-- name: error_group_decide
insert into /* schema */riverui_error_group as g (
  fingerprint, title, first_at, last_at, number, sample_job_id, state, decided_at, decided_by, reason, release,
  old_releases, until_at, until_rate, until_total
)
values (
  :fingerprint::text, :title::text, :first_at::timestamptz, :last_at::timestamptz, :number::bigint,
  :sample_job_id::bigint, :state::text, clock_timestamp(), :username::text, :reason::text, :release::text,
  :old_releases::text[], :until_at::timestamptz, :until_rate::bigint, :until_total::bigint
)
on conflict (fingerprint) do update
set state = excluded.state, decided_at = excluded.decided_at, decided_by = excluded.decided_by,
  reason = excluded.reason, release = excluded.release, old_releases = excluded.old_releases,
  until_at = excluded.until_at, until_rate = excluded.until_rate, until_total = excluded.until_total,
  regressed_at = null
returning /* columns: */ g.fingerprint /* :columns */;

-- name: error_group_delete_before
delete from /* schema */riverui_error_group g
where g.fingerprint = any(array(
  select c.fingerprint
  from /* schema */riverui_error_group c
  where c.last_at < :before::timestamptz and (c.decided_at is null or c.decided_at < :before::timestamptz)
  order by c.last_at
  limit :limit::bigint
  for update skip locked
))
returning g.fingerprint;
