-- name: leader_get
-- A row whose term has run out stays until somebody elects itself: nobody leads then.
select leader_id, elected_at, expires_at from /* schema */river_leader where expires_at >= now() limit 1;
