-- name: periodic_history_list
-- By River's GIN index on metadata, whose bitmap finds them all at once. The columns are cut before they are sorted.
with seen as (
  select j.id, j.state::text as state, left(j.kind, :name_length::int) as kind,
    left(j.queue, :name_length::int) as queue, j.scheduled_at, j.attempted_at, j.finalized_at, j.attempt,
    left(coalesce(j.metadata->>'river:periodic_job_id', ''), :name_length::int) as name
  from /* jobs: */ /* schema */river_job j /* :jobs */
  where j.metadata ?| array['river:periodic_job_id', 'periodic']
  limit :most::bigint
),
placed as (
  select s.id, s.state, s.kind, s.queue, s.scheduled_at, s.attempted_at, s.finalized_at, s.attempt, s.name,
    count(*) over () as looked_at, count(*) over same as jobs,
    row_number() over (same order by s.id desc) as place
  from seen s
  window same as (partition by s.name, case when s.name = '' then s.kind end)
)
select p.id, p.state, p.kind, p.queue, p.scheduled_at, p.attempted_at, p.finalized_at, p.attempt, p.name, p.looked_at,
  p.jobs
from placed p
where p.place <= :runs::bigint
order by p.name, case when p.name = '' then p.kind end, p.place
limit :names::bigint * :runs::bigint;

-- part: periodic_newest (periodic_history_list.jobs)
(
  select n.id, n.state, n.kind, n.queue, n.scheduled_at, n.attempted_at, n.finalized_at, n.attempt, n.metadata
  from /* schema */river_job n
  order by n.id desc
  limit :window::bigint
) j;
