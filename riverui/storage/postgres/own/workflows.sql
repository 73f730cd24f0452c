-- Workflows. Whoever moves tasks has locked the rows of their workflows first, in the order of their ids, so that two
-- never wait for one another, and each statement sees what the one before it has left.

-- name: workflow_tables
select to_regclass('/* schema */riverui_workflow_task') is not null as own,
  to_regclass('/* schema */river_workflow') is not null as pro;

-- name: workflow_begin_many
-- The update changes nothing; it locks the row.
insert into /* schema */riverui_workflow as w (id, name, parent_job_id)
select u.id, u.name, u.parent_job_id
from unnest(:ids::text[], :names::text[], :parents::bigint[]) as u (id, name, parent_job_id)
order by u.id
on conflict (id) do update set name = w.name
returning w.id, w.cancelled_at is not null as cancelled;

-- name: workflow_lock_by_job
select w.id
from /* schema */riverui_workflow w
where w.id in (select t.workflow_id from /* schema */riverui_workflow_task t where t.job_id = any(:job_ids::bigint[]))
order by w.id
for update;

-- name: workflow_task_insert_many
with given as materialized (
  select u.workflow_id, u.name, u.job_id, u.waits_for, u.ignored, u.wait
  from unnest(
    :workflow_ids::text[], :names::text[], :job_ids::bigint[], :waits_for::int[], :ignored::text[], :waits::jsonb[]
  ) as u (workflow_id, name, job_id, waits_for, ignored, wait)
),
inserted as (
  insert into /* schema */riverui_workflow_task (workflow_id, name, job_id, waits_for, ignored, wait, state, staged_at)
  select g.workflow_id, g.name, g.job_id, g.waits_for, g.ignored, g.wait,
    case when g.waits_for > 0 then 'waiting' when g.wait is not null then 'wait' else 'staged' end,
    case when g.waits_for = 0 and g.wait is null then clock_timestamp() end
  from given g
  on conflict (workflow_id, name) do nothing
  returning workflow_id, name
),
edges as (
  insert into /* schema */riverui_workflow_edge (workflow_id, dependency, task)
  select u.workflow_id, u.dependency, u.task
  from unnest(:edge_workflow_ids::text[], :edge_dependencies::text[], :edge_tasks::text[])
    as u (workflow_id, dependency, task)
  on conflict do nothing
),
counted as (
  update /* schema */riverui_workflow w
  set open = w.open + c.tasks, ended_at = null
  from (select g.workflow_id, count(*)::int as tasks from given g group by g.workflow_id) c
  where w.id = c.workflow_id
)
select g.workflow_id, g.name
from given g
where not exists (select from inserted i where i.workflow_id = g.workflow_id and i.name = g.name)
limit 1;

-- name: workflow_task_missing
select t.name, e.dependency
from /* schema */riverui_workflow_task t
join /* schema */riverui_workflow_edge e on e.workflow_id = t.workflow_id and e.task = t.name
where t.job_id = any(:job_ids::bigint[])
  and not exists (
    select from /* schema */riverui_workflow_task d
    where d.workflow_id = e.workflow_id and d.name = e.dependency
  )
limit 1;

-- name: workflow_stage
-- What tasks are moved to is written into their jobs: staged ones can be worked, cancelled ones have ended. By itself
-- it stages tasks whose own wait is over.
-- Slot: moved (workflow_moved_by_ends).
with recursive
/* moved: */
closed (workflow_id) as (
  select null::text where false
),
moved as (
  update /* schema */riverui_workflow_task t
  set state = 'staged', staged_at = clock_timestamp()
  where t.job_id = any(:job_ids::bigint[]) and t.state = 'wait'
  returning t.workflow_id, t.job_id, t.state
),
/* :moved */
jobs as (
  update /* schema */river_job j
  set state = (
      case when m.state = 'cancelled' then 'cancelled' when j.scheduled_at > now() then 'scheduled' else 'available' end
    )::/* schema */river_job_state,
    finalized_at = case when m.state = 'cancelled' then now() end,
    scheduled_at = case when m.state = 'cancelled' then j.scheduled_at else greatest(j.scheduled_at, now()) end,
    metadata = case
      when jsonb_typeof(j.metadata) = 'object' then j.metadata || jsonb_build_object(
        case when m.state = 'cancelled' then 'workflow_deps_failed_at' else 'workflow_staged_at' end, :at::text
      )
      else j.metadata
    end
  from moved m
  where j.id = m.job_id and m.state in ('cancelled', 'staged') and (j.state = 'pending') is true
  returning j.id, j.queue, j.state
),
workflows as (
  update /* schema */riverui_workflow w
  set open = greatest(w.open - c.tasks, 0), ended_at = case when w.open <= c.tasks then clock_timestamp() end
  from (select d.workflow_id, count(*)::int as tasks from closed d group by d.workflow_id) c
  where w.id = c.workflow_id
  returning w.open, w.parent_job_id
),
parents as (
  update /* schema */river_job j
  set state = 'available', scheduled_at = now()
  from workflows w
  where w.open = 0 and j.id = w.parent_job_id and (j.state in ('available', 'scheduled')) is true
    and j.scheduled_at > now()
  returning j.queue
),
notified as materialized (
  select count(
    pg_notify(
      concat(coalesce(:schema::text, current_schema()), '.river_insert'), json_build_object('queue', q.queue)::text
    )
  )
  from (
    select o.queue from jobs o where o.state = 'available' union select p.queue from parents p
  ) q
)
select m.job_id, m.state, o.state::text as job_state
from notified n
left join moved m on true
left join jobs o on o.id = m.job_id;

-- part: workflow_moved_by_ends (workflow_stage.moved)
-- How tasks have ended, and what follows for those that wait for them: `met` are the edges from tasks that have ended,
-- `fallen` the tasks that cannot be worked any more, with all that follow from them, `counted` the waits that are over.
-- Slot: resolved (workflow_resolved_before).
given as materialized (
  select u.job_id, u.state from unnest(:job_ids::bigint[], :states::text[]) as u (job_id, state)
),
ended as (
  update /* schema */riverui_workflow_task t
  set state = g.state, ended_at = clock_timestamp()
  from given g
  where t.job_id = g.job_id and t.state in ('staged', 'wait', 'waiting')
  returning t.workflow_id, t.name, t.state
),
met as materialized (
  select r.workflow_id, r.task, t.job_id,
    r.state = 'completed'
      or strpos(t.ignored, case r.state when 'cancelled' then 'c' when 'discarded' then 'd' else 'x' end) > 0 as well
  from (
    /* resolved: */
    select e.workflow_id, e.task, d.state
    from ended d
    join /* schema */riverui_workflow_edge e on e.workflow_id = d.workflow_id and e.dependency = d.name
    /* :resolved */
  ) r
  join /* schema */riverui_workflow_task t on t.workflow_id = r.workflow_id and t.name = r.task
  where t.state = 'waiting' and t.job_id not in (select g.job_id from given g)
),
fallen (workflow_id, name) as (
  select m.workflow_id, m.task from met m where not m.well
  union
  select e.workflow_id, e.task
  from fallen f
  join /* schema */riverui_workflow_edge e on e.workflow_id = f.workflow_id and e.dependency = f.name
  join /* schema */riverui_workflow_task t on t.workflow_id = e.workflow_id and t.name = e.task
  where t.state = 'waiting' and strpos(t.ignored, 'c') = 0 and t.job_id not in (select g.job_id from given g)
),
counted as (
  select c.workflow_id, c.task, count(*)::int as waits
  from (
    select m.workflow_id, m.task from met m where m.well
    union all
    select e.workflow_id, e.task
    from fallen f
    join /* schema */riverui_workflow_edge e on e.workflow_id = f.workflow_id and e.dependency = f.name
    join /* schema */riverui_workflow_task t on t.workflow_id = e.workflow_id and t.name = e.task
    where t.state = 'waiting' and strpos(t.ignored, 'c') > 0 and t.job_id not in (select g.job_id from given g)
  ) c
  where not exists (select from fallen f where f.workflow_id = c.workflow_id and f.name = c.task)
  group by c.workflow_id, c.task
),
closed as (
  select d.workflow_id from ended d
  union all
  select f.workflow_id from fallen f
),
moved as (
  update /* schema */riverui_workflow_task t
  set waits_for = greatest(t.waits_for - c.waits, 0),
    state = case
      when c.failed then 'cancelled'
      when t.waits_for > c.waits then 'waiting'
      when t.wait is not null then 'wait'
      else 'staged'
    end,
    staged_at = case when not c.failed and t.waits_for <= c.waits and t.wait is null then clock_timestamp() end,
    ended_at = case when c.failed then clock_timestamp() end
  from (
    select f.workflow_id, f.name, 0 as waits, true as failed from fallen f
    union all
    select o.workflow_id, o.task, o.waits, false from counted o
  ) c
  where t.workflow_id = c.workflow_id and t.name = c.name
  returning t.workflow_id, t.job_id, t.state
),;

-- part: workflow_resolved_before (workflow_moved_by_ends.resolved)
-- The edges from tasks that had ended before to those that have only now come to wait for them.
select e.workflow_id, e.task, d.state
from /* schema */riverui_workflow_task n
join /* schema */riverui_workflow_edge e on e.workflow_id = n.workflow_id and e.task = n.name
join /* schema */riverui_workflow_task d on d.workflow_id = e.workflow_id and d.name = e.dependency
where n.job_id = any(:settled::bigint[]) and d.state in ('cancelled', 'completed', 'deleted', 'discarded');
