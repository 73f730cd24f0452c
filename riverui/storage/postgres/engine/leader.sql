-- Election for River's maintenance. The table has one row at most; a term is known by its leader and its start.

-- name: leader_get
-- A row whose term has expired stays until a client elects itself; until then there is no leader.
select leader_id, elected_at, expires_at from /* schema */river_leader where expires_at >= now() limit 1;

-- name: leader_attempt_elect
-- River: LeaderDeleteExpired and LeaderAttemptElect. Taking over an expired term leaves the same row.
insert into /* schema */river_leader as l (leader_id, elected_at, expires_at)
values (
  :leader_id::text, coalesce(:now::timestamptz, now()),
  coalesce(:now::timestamptz, now()) + make_interval(secs => :ttl::float8)
)
on conflict (name) do update
  set leader_id = excluded.leader_id, elected_at = excluded.elected_at, expires_at = excluded.expires_at
  where l.expires_at < coalesce(:now::timestamptz, now())
returning l.leader_id, l.elected_at, l.expires_at;

-- name: leader_attempt_reelect
-- River: LeaderAttemptReelect.
update /* schema */river_leader l
set expires_at = coalesce(:now::timestamptz, now()) + make_interval(secs => :ttl::float8)
where l.leader_id = :leader_id::text and l.elected_at = :elected_at::timestamptz
  and l.expires_at >= coalesce(:now::timestamptz, now())
returning l.leader_id, l.elected_at, l.expires_at;

-- name: leader_resume
-- Another leader would have replaced the row: if it is still there, no client has led since.
update /* schema */river_leader l
set expires_at = coalesce(:now::timestamptz, now()) + make_interval(secs => :ttl::float8)
where l.leader_id = :leader_id::text and l.elected_at = :elected_at::timestamptz
returning l.leader_id, l.elected_at, l.expires_at;

-- name: leader_resign
-- River: LeaderResign.
with resigned as (
  delete from /* schema */river_leader l
  where l.leader_id = :leader_id::text and l.elected_at = :elected_at::timestamptz
  returning l.leader_id
)
select pg_notify(
  concat(coalesce(:schema::text, current_schema()), '.river_leadership'),
  json_build_object('leader_id', r.leader_id, 'action', 'resigned')::text
) as notified
from resigned r;
