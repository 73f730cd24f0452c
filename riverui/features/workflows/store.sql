-- Workflows. Transactions that change tasks first lock the rows of their workflows, in the order of their ids, so that
-- no two deadlock, and each statement sees the changes of the one before.
-- A workflow may have a hundred thousand tasks though most have four, so no plan may depend on averages: rows are found
-- by whole keys, in arrays or one by one (`offset 0` keeps a lateral query from being turned into a join).

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
where w.id = any(array(
    select distinct t.workflow_id from /* schema */riverui_workflow_task t where t.job_id = any(:job_ids::bigint[])
  ))
order by w.id
for update;

-- name: workflow_lock_family
-- The workflows of jobs, or one workflow, and those below: started and awaited by these jobs, and so on. Those below
-- are open, or cancelled; none of a completed job, which no longer waits. `roots` are the jobs above a workflow.
with recursive root as materialized (
  select u.job_id from unnest(:job_ids::bigint[]) as u (job_id)
  union
  select t.job_id from /* schema */riverui_workflow_task t where t.workflow_id = :id::text
),
below (id, root) as (
  select w.id, r.job_id
  from root r
  cross join lateral (
    select w.id
    from /* schema */riverui_workflow w
    where w.parent_job_id = r.job_id and (w.ended_at is null) = (not :cancelled::boolean)
      and (w.cancelled_at is not null or not :cancelled::boolean)
    offset 0
  ) w
  where :cancelled::boolean
    or (select j.state from /* schema */river_job j where j.id = r.job_id) is distinct from 'completed'
  union
  select c.id, b.root
  from below b
  cross join lateral (
    select w.id
    from (
      select t.job_id
      from /* schema */riverui_workflow_task t
      where t.workflow_id = b.id and t.state = case when :cancelled::boolean then 'cancelled' else 'staged' end
      offset 0
    ) t
    cross join lateral (
      select w.id
      from /* schema */riverui_workflow w
      where w.parent_job_id = t.job_id and (w.ended_at is null) = (not :cancelled::boolean)
        and (w.cancelled_at is not null or not :cancelled::boolean)
      offset 0
    ) w
    offset 0
  ) c
),
few as materialized (
  select b.id, b.root from below b limit :limit::bigint
)
select w.id, array(select f.root from few f where f.id = w.id order by f.root) as roots
from /* schema */riverui_workflow w
where w.id = any(array(
    select distinct t.workflow_id from /* schema */riverui_workflow_task t where t.job_id = any(:job_ids::bigint[])
    union
    select f.id from few f
    union
    select :id::text
  ))
order by w.id
for update;

-- name: workflow_forsaken_list
-- The workflows of one page of open ones whose parent was cancelled since, and where the page ends.
with page as materialized (
  select w.id, w.parent_job_id, w.cancelled_at, w.retried_at
  from /* schema */riverui_workflow w
  where w.ended_at is null and w.id > :after::text
  order by w.id
  limit :limit::bigint
)
select p.id, coalesce(j.cancelled, false) as forsaken
from page p
left join lateral (
  select j.finalized_at > coalesce(p.retried_at, 'epoch') as cancelled
  from /* schema */river_job j
  where j.id = p.parent_job_id and (j.state = 'cancelled') is true
  offset 0
) j on p.cancelled_at is null
where j.cancelled or p.id = (select o.id from page o order by o.id desc limit 1)
order by p.id;

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
  where w.id = c.workflow_id and w.id = any(array(select distinct g.workflow_id from given g))
)
select g.workflow_id, g.name
from given g
where (select count(*) from inserted i) < (select count(*) from given o)
  and not exists (select from inserted i where i.workflow_id = g.workflow_id and i.name = g.name)
limit 1;

-- name: workflow_task_missing
select t.name, e.dependency
from /* schema */riverui_workflow_task t
cross join lateral (
  select e.workflow_id, e.dependency
  from /* schema */riverui_workflow_edge e
  where e.workflow_id = t.workflow_id and e.task = t.name
  offset 0
) e
where t.job_id = any(:job_ids::bigint[])
  and (
    select d.job_id
    from /* schema */riverui_workflow_task d
    where d.workflow_id = e.workflow_id and d.name = e.dependency
  ) is null
limit 1;

-- name: workflow_stage
-- Writes the new states of tasks into their jobs: staged ones can be worked, cancelled ones have ended. Without the
-- slot it stages tasks whose own wait is over. It uses clock_timestamp(), as now() is before the job's time in a
-- transaction that also inserted it, and the task would stay scheduled.
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
  returning t.job_id, t.state
),
/* :moved */
staged as (
  update /* schema */river_job j
  set state = (
      case when j.scheduled_at > clock_timestamp() then 'scheduled' else 'available' end
    )::/* schema */river_job_state,
    scheduled_at = greatest(j.scheduled_at, clock_timestamp()),
    metadata = case
      when jsonb_typeof(j.metadata) = 'object'
        then j.metadata || jsonb_build_object('workflow_staged_at', :at::text)
      else j.metadata
    end
  where j.id = any(array(select m.job_id from moved m where m.state = 'staged')) and (j.state = 'pending') is true
  returning j.id, j.queue, j.state
),
cancelled as (
  update /* schema */river_job j
  set state = 'cancelled', finalized_at = now(),
    metadata = case
      when jsonb_typeof(j.metadata) = 'object'
        then j.metadata || jsonb_build_object('workflow_deps_failed_at', :at::text)
      else j.metadata
    end
  where j.id = any(array(select m.job_id from moved m where m.state = 'cancelled')) and (j.state = 'pending') is true
),
workflows as (
  update /* schema */riverui_workflow w
  set open = greatest(w.open - c.tasks, 0), ended_at = case when w.open <= c.tasks then clock_timestamp() end
  from (select d.workflow_id, count(*)::int as tasks from closed d group by d.workflow_id) c
  where w.id = c.workflow_id and w.id = any(array(select distinct d.workflow_id from closed d))
  returning w.open, w.parent_job_id
),
parents as (
  update /* schema */river_job j
  set state = 'available', scheduled_at = now()
  where j.id = any(array(select w.parent_job_id from workflows w where w.open = 0))
    and (j.state in ('available', 'scheduled')) is true and j.scheduled_at > now()
  returning j.queue
),
notified as materialized (
  select count(
    pg_notify(
      concat(coalesce(:schema::text, current_schema()), '.river_insert'), json_build_object('queue', q.queue)::text
    )
  )
  from (
    select o.queue from staged o where o.state = 'available' union select p.queue from parents p
  ) q
)
select m.job_id, m.state, o.state::text as job_state
from notified n
left join moved m on true
left join staged o on o.id = m.job_id;

-- part: workflow_moved_by_ends (workflow_stage.moved)
-- The ends of tasks, and the consequences for those that wait for them: `met` are the edges from ended tasks, `fallen`
-- the tasks that cannot be worked any more, with all that depend on them, `counted` the waits that are over.
-- The ids are sorted, so that each task's state is found by its position.
-- Slot: resolved (workflow_resolved_before).
ended as (
  update /* schema */riverui_workflow_task t
  set state = (:states::text[])[width_bucket(t.job_id, :job_ids::bigint[])], ended_at = clock_timestamp()
  where t.job_id = any(:job_ids::bigint[]) and t.state in ('staged', 'wait', 'waiting')
  returning t.workflow_id, t.name, t.state
),
met as materialized (
  select t.job_id, t.workflow_id, t.name,
    r.state = 'completed'
      or strpos(t.ignored, case r.state when 'cancelled' then 'c' when 'discarded' then 'd' else 'x' end) > 0 as well
  from (
    /* resolved: */
    select e.workflow_id, e.task, d.state
    from ended d
    cross join lateral (
      select e.workflow_id, e.task
      from /* schema */riverui_workflow_edge e
      where e.workflow_id = d.workflow_id and e.dependency = d.name
      offset 0
    ) e
    /* :resolved */
  ) r
  cross join lateral (
    select t.job_id, t.workflow_id, t.name, t.ignored
    from /* schema */riverui_workflow_task t
    where t.workflow_id = r.workflow_id and t.name = r.task and t.state = 'waiting'
    offset 0
  ) t
  where t.job_id <> all(:job_ids::bigint[])
),
fallen (job_id, workflow_id, name) as (
  select m.job_id, m.workflow_id, m.name from met m where not m.well
  union
  select e.job_id, e.workflow_id, e.name
  from fallen f
  cross join lateral (
    select t.job_id, t.workflow_id, t.name
    from (
      select e.workflow_id, e.task
      from /* schema */riverui_workflow_edge e
      where e.workflow_id = f.workflow_id and e.dependency = f.name
      offset 0
    ) e
    cross join lateral (
      select t.job_id, t.workflow_id, t.name, t.ignored
      from /* schema */riverui_workflow_task t
      where t.workflow_id = e.workflow_id and t.name = e.task and t.state = 'waiting'
      offset 0
    ) t
    where strpos(t.ignored, 'c') = 0 and t.job_id <> all(:job_ids::bigint[])
  ) e
),
counted as (
  select c.job_id, count(*)::int as waits
  from (
    select m.job_id from met m where m.well
    union all
    select t.job_id
    from fallen f
    cross join lateral (
      select e.workflow_id, e.task
      from /* schema */riverui_workflow_edge e
      where e.workflow_id = f.workflow_id and e.dependency = f.name
      offset 0
    ) e
    cross join lateral (
      select t.job_id, t.ignored
      from /* schema */riverui_workflow_task t
      where t.workflow_id = e.workflow_id and t.name = e.task and t.state = 'waiting'
      offset 0
    ) t
    where strpos(t.ignored, 'c') > 0 and t.job_id <> all(:job_ids::bigint[])
  ) c
  -- As an array: for a recursion Postgres expects so many rows that making the empty hash table took most of a minute.
  where not exists (select from unnest(array(select f.job_id from fallen f)) f (job_id) where f.job_id = c.job_id)
  group by c.job_id
),
closed as (
  select d.workflow_id from ended d
  union all
  select f.workflow_id from fallen f
),
sums as materialized (
  select array_agg(c.job_id order by c.job_id) as job_ids, array_agg(c.waits order by c.job_id) as waits
  from counted c
),
fell as (
  update /* schema */riverui_workflow_task t
  set state = 'cancelled', ended_at = clock_timestamp()
  where t.job_id = any(array(select f.job_id from fallen f))
  returning t.job_id, t.state
),
stepped as (
  -- Without a join, which could compare all pairs.
  update /* schema */riverui_workflow_task t
  set waits_for = greatest(t.waits_for - s.waits[width_bucket(t.job_id, s.job_ids)], 0),
    state = case
      when t.waits_for > s.waits[width_bucket(t.job_id, s.job_ids)] then 'waiting'
      when t.wait is not null then 'wait'
      else 'staged'
    end,
    staged_at = case
      when t.waits_for <= s.waits[width_bucket(t.job_id, s.job_ids)] and t.wait is null then clock_timestamp()
    end
  from sums s
  where t.job_id = any(s.job_ids)
  returning t.job_id, t.state
),
moved as (
  select f.job_id, f.state from fell f
  union all
  select p.job_id, p.state from stepped p
),;

-- part: workflow_resolved_before (workflow_moved_by_ends.resolved)
-- The edges from tasks that ended earlier to the tasks just added that wait for them.
select e.workflow_id, e.task, d.state
from /* schema */riverui_workflow_task n
cross join lateral (
  select e.workflow_id, e.task, e.dependency
  from /* schema */riverui_workflow_edge e
  where e.workflow_id = n.workflow_id and e.task = n.name
  offset 0
) e
cross join lateral (
  select d.state
  from /* schema */riverui_workflow_task d
  where d.workflow_id = e.workflow_id and d.name = e.dependency
  offset 0
) d
where n.job_id = any(:settled::bigint[]) and d.state in ('cancelled', 'completed', 'deleted', 'discarded');

-- name: workflow_lock_by_id
select w.id, w.name, w.attempt, w.open, w.cancelled_at,
  clock_timestamp() - coalesce(w.retried_at, w.created_at) as age
from /* schema */riverui_workflow w
where w.id = :id::text
for update;

-- name: workflow_task_restage
-- Tasks whose jobs were retried: they are open again, and tasks that still wait also wait for them.
with again as materialized (
  select t.job_id, t.workflow_id, t.name, t.state
  from /* schema */riverui_workflow_task t
  where t.job_id = any(:job_ids::bigint[]) and t.state <> 'staged'
),
waits as materialized (
  select t.job_id, count(*)::int as more
  from again a
  cross join lateral (
    select e.workflow_id, e.task
    from /* schema */riverui_workflow_edge e
    where e.workflow_id = a.workflow_id and e.dependency = a.name
    offset 0
  ) e
  cross join lateral (
    select t.job_id, t.ignored
    from /* schema */riverui_workflow_task t
    where t.workflow_id = e.workflow_id and t.name = e.task and t.state = 'waiting'
    offset 0
  ) t
  where t.job_id <> all(:job_ids::bigint[]) and (
    a.state = 'completed' or a.state in ('cancelled', 'deleted', 'discarded')
      and strpos(t.ignored, case a.state when 'cancelled' then 'c' when 'discarded' then 'd' else 'x' end) > 0
  )
  group by t.job_id
),
waiting as (
  update /* schema */riverui_workflow_task t
  set waits_for = t.waits_for + c.more
  from waits c
  where t.job_id = c.job_id and t.job_id = any(array(select o.job_id from waits o))
),
staged as (
  update /* schema */riverui_workflow_task t
  set state = 'staged', waits_for = 0, staged_at = clock_timestamp(), ended_at = null
  where t.job_id = any(array(select a.job_id from again a))
),
jobs as (
  update /* schema */river_job j
  set metadata = j.metadata - 'workflow_deps_failed_at'
  where j.id = any(array(select a.job_id from again a where a.state = 'cancelled'))
    and jsonb_typeof(j.metadata) = 'object' and j.metadata ? 'workflow_deps_failed_at'
)
update /* schema */riverui_workflow w
set open = w.open + c.tasks, ended_at = null
from (
  select a.workflow_id, count(*)::int as tasks
  from again a
  where a.state in ('cancelled', 'completed', 'deleted', 'discarded')
  group by a.workflow_id
) c
where w.id = c.workflow_id and w.id = any(array(select distinct a.workflow_id from again a))
returning w.id;

-- name: workflow_task_reopen
-- A new attempt at a workflow whose tasks have all ended: the selected ones wait again. Those without dependencies are
-- left in 'wait', from where workflow_stage takes them. A task whose job was deleted is unchanged.
with recursive chosen (job_id, name) as (
  select t.job_id, t.name
  from /* schema */riverui_workflow_task t
  where t.workflow_id = :id::text and (:mode::text = 'all' or t.state in ('cancelled', 'discarded'))
  union
  select d.job_id, d.name
  from chosen c
  cross join lateral (
    select t.job_id, t.name
    from (
      select e.task
      from /* schema */riverui_workflow_edge e
      where e.workflow_id = :id::text and e.dependency = c.name
      offset 0
    ) e
    cross join lateral (
      select t.job_id, t.name
      from /* schema */riverui_workflow_task t
      where t.workflow_id = :id::text and t.name = e.task
      offset 0
    ) t
    where :mode::text = 'failed_and_downstream'
  ) d
),
jobs as (
  update /* schema */river_job j
  set state = 'pending',
    attempt = case when :reset::boolean then 0 else j.attempt end,
    errors = case when :reset::boolean then null else j.errors end,
    finalized_at = null,
    max_attempts = case when :reset::boolean then j.max_attempts else least(j.max_attempts + 1, 32767) end,
    metadata = case
      when jsonb_typeof(j.metadata) = 'object' then j.metadata - array[
        'cancel_attempted_at', 'river:workflow_wait_state', 'workflow_deps_failed_at', 'workflow_staged_at'
      ]
      else j.metadata
    end,
    scheduled_at = now()
  where j.id = any(array(select c.job_id from chosen c))
    and (j.state in ('cancelled', 'completed', 'discarded')) is true
  returning j.id
),
tasks as (
  update /* schema */riverui_workflow_task t
  set state = case when c.waits > 0 then 'waiting' else 'wait' end, waits_for = c.waits, staged_at = null,
    ended_at = null
  from (
    select c.job_id, (
      select count(*)::int
      from /* schema */riverui_workflow_edge e
      where e.workflow_id = :id::text and e.task = c.name
    ) as waits
    from chosen c
  ) c
  where t.job_id = c.job_id and t.job_id = any(array(select j.id from jobs j))
  returning t.job_id, t.waits_for, t.wait is not null as waits_on
),
workflow as (
  update /* schema */riverui_workflow w
  set attempt = w.attempt + 1, open = w.open + (select count(*) from tasks), cancelled_at = null, ended_at = null,
    retried_at = clock_timestamp()
  where w.id = :id::text and exists (select from tasks)
)
select t.job_id, t.waits_for, t.waits_on from tasks t order by t.job_id;

-- name: workflow_cancel
-- No task can be added from now on; those that have not ended are returned.
with cancelled as (
  update /* schema */riverui_workflow w
  set cancelled_at = coalesce(w.cancelled_at, clock_timestamp())
  where w.id = :id::text and w.ended_at is null
  returning w.id
)
select t.job_id
from cancelled c
cross join lateral (
  select t.job_id
  from /* schema */riverui_workflow_task t
  where t.workflow_id = c.id and t.state in ('staged', 'wait', 'waiting')
  offset 0
) t
order by t.job_id;

-- name: workflow_task_stray_list
-- Tasks whose jobs may have ended unrecorded: worked by a client without workflows, or deleted or cancelled elsewhere.
-- One page of the staged tasks, or given ones.
-- Slot: which (workflow_task_stray_given).
with page as materialized (
  /* which: */
  select t.job_id
  from /* schema */riverui_workflow_task t
  where t.state = 'staged' and t.job_id > :after::bigint
  order by t.job_id
  limit :limit::bigint
  /* :which */
)
select p.job_id, j.state::text as job_state, j.id is null as gone
from page p
left join lateral (
  select j.id, j.state from /* schema */river_job j where j.id = p.job_id offset 0
) j on true
order by p.job_id;

-- part: workflow_task_stray_given (workflow_task_stray_list.which)
select t.job_id
from /* schema */riverui_workflow_task t
where t.job_id = any(:job_ids::bigint[]) and t.state in ('staged', 'wait', 'waiting');

-- name: workflow_task_staged_list
select t.job_id
from /* schema */riverui_workflow_task t
where t.workflow_id = :id::text and t.state = 'staged';

-- part: workflow_holds_job (job_delete_before.held)
-- Leaves out tasks of open workflows, and of those with open parents. One by one, so that no table is read in full.
and (
  select true
  from /* schema */riverui_workflow_task t
  join /* schema */riverui_workflow w on w.id = t.workflow_id
  where t.job_id = j.id and (
    w.ended_at is null
    or (select p.finalized_at is null from /* schema */river_job p where p.id = w.parent_job_id)
  )
  limit 1
) is null;

-- part: workflow_held_jobs (job_delete_before.deleted)
-- Ends job_delete_before to return how far the kept jobs reach, by state.
,
looked as materialized (
  select o.state, o.finalized_at, j.id is null as held
  from old o
  left join lateral (
    select j.id from /* schema */river_job j where j.id = o.id /* held: */ /* :held */ offset 0
  ) j on true
),
reach as (
  select l.state, max(l.finalized_at) as last, min(l.finalized_at) filter (where not l.held) as free,
    count(*) as looked, count(*) filter (where l.held) as held
  from looked l
  group by l.state
)
select r.state::text as state, r.looked, r.held, case
    when r.free is null and r.last = (select min(l.finalized_at) from looked l where l.state = r.state) then r.last
    else (
      select max(l.finalized_at) from looked l where l.state = r.state and l.finalized_at < coalesce(r.free, r.last)
    )
  end as behind
from reach r;

-- name: workflow_jobless_list
-- The workflows of one page of ended ones that have no job, and where the page ends.
with page as materialized (
  select w.id, w.ended_at
  from /* schema */riverui_workflow w
  where w.ended_at is not null and (w.ended_at, w.id) > (:after_at::timestamptz, :after_id::text)
  order by w.ended_at, w.id
  limit :limit::bigint
)
select p.id, p.ended_at, g.gone, (select count(*) from page) as looked
from page p
cross join lateral (
  select (
      select true
      from /* schema */riverui_workflow_task t
      cross join lateral (
        select j.id from /* schema */river_job j where j.id = t.job_id offset 0
      ) j
      where t.workflow_id = p.id
      limit 1
    ) is null as gone
  offset 0
) g
where g.gone or p.id = (select o.id from page o order by o.ended_at desc, o.id desc limit 1)
order by p.ended_at, p.id;

-- name: workflow_delete_before
-- Deletes workflows that ended before then, the first ended first, with all their rows. Those whose parents have not
-- ended are kept: the parents wait for them.
-- Slot: which (workflow_given).
with old as materialized (
  select w.id
  from /* schema */riverui_workflow w
  where w.ended_at /* which: */ < :before::timestamptz /* :which */
    and (
      select true from /* schema */river_job p where p.id = w.parent_job_id and p.finalized_at is null offset 0
    ) is null
  order by w.ended_at
  limit :limit::bigint
  for update of w skip locked
),
edges as (
  delete from /* schema */riverui_workflow_edge e where e.workflow_id = any(array(select o.id from old o))
),
tasks as (
  delete from /* schema */riverui_workflow_task t where t.workflow_id = any(array(select o.id from old o))
)
delete from /* schema */riverui_workflow w
where w.id = any(array(select o.id from old o))
returning w.id;

-- part: workflow_given (workflow_delete_before.which)
is not null and w.id = any(:ids::text[]);

-- name: workflow_head_get
select w.id, w.name, w.attempt, w.open, w.cancelled_at,
  clock_timestamp() - coalesce(w.retried_at, w.created_at) as age
from /* schema */riverui_workflow w
where w.id = :id::text;

-- name: workflow_task_list_of
-- Tasks of a workflow by name, with the names of their dependencies.
-- Slot: which (workflow_task_dep_direct, workflow_task_dep_all, workflow_task_dep_names).
with recursive
/* which: */
chosen (name) as (
  select t.name
  from /* schema */riverui_workflow_task t
  where t.workflow_id = :id::text and t.name > :after::text
  order by t.name
  limit :limit::bigint
)
/* :which */
select t.name, t.state, t.job_id, array(
    select e.dependency
    from /* schema */riverui_workflow_edge e
    where e.workflow_id = :id::text and e.task = t.name
    order by e.dependency
  ) as deps
from chosen c
cross join lateral (
  select t.name, t.state, t.job_id
  from /* schema */riverui_workflow_task t
  where t.workflow_id = :id::text and t.name = c.name
  offset 0
) t
order by t.name;

-- part: workflow_task_dep_direct (workflow_task_list_of.which)
chosen (name) as (
  select e.dependency
  from /* schema */riverui_workflow_edge e
  where e.workflow_id = :id::text and e.task = :after::text
  limit :limit::bigint
);

-- part: workflow_task_dep_all (workflow_task_list_of.which)
-- If there are more than the limit, only some of them.
found (name) as (
  select e.dependency from /* schema */riverui_workflow_edge e where e.workflow_id = :id::text and e.task = :after::text
  union
  select d.dependency
  from found f
  cross join lateral (
    select e.dependency
    from /* schema */riverui_workflow_edge e
    where e.workflow_id = :id::text and e.task = f.name
    offset 0
  ) d
),
chosen (name) as (select f.name from found f limit :limit::bigint);

-- part: workflow_task_dep_names (workflow_task_list_of.which)
chosen (name) as (select :after::text);
