-- Workflows of riverui's own tables, for pages.

-- name: workflow_page_list
-- A search reads a window of them; how far it came is returned even if it found nothing. Tasks are counted up to a cap,
-- and only staged ones are looked up among the jobs.
with seen as materialized (
  select w.id, w.name, w.attempt, w.created_at, w.open, w.ended_at, w.cancelled_at, w.retried_at, w.parent_job_id
  from /* schema */riverui_workflow w
  where (:after::text = '' or w.id < :after::text) /* active */
  order by w.id desc
  limit :window::bigint
),
page as materialized (
  select s.id, s.name, s.attempt, s.created_at, s.open, s.ended_at, s.cancelled_at, s.retried_at, s.parent_job_id
  from seen s
  where true /* match */ /* outcome */
  order by s.id desc
  limit :limit::bigint
)
select e.looked_at, e.last_seen, p.id, p.name, p.attempt, p.created_at, p.open, p.ended_at, p.cancelled_at,
  p.retried_at, p.parent_job_id, c.counts
from (select count(*) as looked_at, min(s.id) as last_seen from seen s) e
left join page p on true
left join lateral (
  select jsonb_object_agg(x.state, x.number)::text as counts
  from (
    select k.state, count(*) as number
    from (
      select case t.state
          when 'waiting' then 'pending' when 'wait' then 'pending'
          when 'staged' then coalesce(
            (select j.state::text from /* schema */river_job j where j.id = t.job_id), 'deleted')
          else t.state
        end as state
      from (
        select t.state, t.job_id from /* schema */riverui_workflow_task t
        where t.workflow_id = p.id
        limit :cap::bigint
      ) t
    ) k
    group by k.state
  ) x
) c on true
order by p.id desc;

-- part: workflow_page_active (workflow_page_list.active)
and w.ended_at is null;

-- part: workflow_page_ended (workflow_page_list.active)
and w.ended_at is not null;

-- part: workflow_page_id (workflow_page_list.active)
and w.id = :id::text;

-- part: workflow_page_of_job (workflow_page_list.active)
and w.id = any(array(
  select c.id from /* schema */riverui_workflow c where c.parent_job_id = :parent::bigint limit :window::bigint
));

-- part: workflow_page_top (workflow_page_list.match)
and s.parent_job_id is null;

-- part: workflow_page_match (workflow_page_list.match)
and (
  position(lower(:match::text) in lower(s.name)) > 0 or starts_with(lower(s.id), lower(:match::text))
);

-- part: workflow_page_kind (workflow_page_list.match)
and exists (
  select from (
    select t.job_id from /* schema */riverui_workflow_task t
    where t.workflow_id = s.id
    limit :kind_tasks::bigint
  ) t
  where (select j.kind from /* schema */river_job j where j.id = t.job_id) = :kind::text
);

-- part: workflow_page_cancelled (workflow_page_list.outcome)
and s.cancelled_at is not null;

-- part: workflow_page_failed (workflow_page_list.outcome)
and s.cancelled_at is null and exists (
  select from /* schema */riverui_workflow_task t
  where t.workflow_id = s.id and t.state in ('cancelled', 'deleted', 'discarded')
);

-- part: workflow_page_completed (workflow_page_list.outcome)
and s.cancelled_at is null and not exists (
  select from /* schema */riverui_workflow_task t
  where t.workflow_id = s.id and t.state in ('cancelled', 'deleted', 'discarded')
);

-- name: workflow_graph_task_list
-- In the order of WorkflowTaskRow. A state added by a later River is shown as pending.
select t.name, t.job_id,
  case
    when j.state::text = any(:states::text::text[]) then j.state::text
    when j.state is not null then 'pending'
    when t.state in ('cancelled', 'completed', 'discarded') then t.state
    else 'deleted'
  end as state,
  coalesce(left(j.kind, :name_length::int), '') as kind, t.waits_for, t.state = 'wait' as waits_for_terms,
  coalesce(j.attempt, 0) as attempt, coalesce(j.max_attempts, 0) as max_attempts, t.staged_at, j.attempted_at,
  j.scheduled_at,
  case
    when j.state in ('cancelled', 'completed', 'discarded') then coalesce(j.finalized_at, t.ended_at)
    when j.state is null then t.ended_at
  end as ended_at
from (
  select t.name, t.job_id, t.state, t.waits_for, t.staged_at, t.ended_at
  from /* schema */riverui_workflow_task t
  where t.workflow_id = :id::text
  order by t.name
  limit :limit::bigint
) t
left join lateral (
  select j.state, j.kind, j.attempt, j.max_attempts, j.attempted_at, j.scheduled_at, j.finalized_at
  from /* schema */river_job j
  where j.id = t.job_id
  limit 1
) j on true
order by t.name;

-- name: workflow_graph_edge_list
select e.dependency, e.task
from /* schema */riverui_workflow_edge e
where e.workflow_id = :id::text
limit :limit::bigint;

-- name: workflow_place_get
select t.workflow_id, w.name as workflow_name, t.name, t.job_id, t.waits_for, t.state, t.ignored, t.staged_at,
  (
    select count(*) from (
      select 1 from /* schema */riverui_workflow_edge e
      where e.workflow_id = t.workflow_id and e.task = t.name
      limit :cap::bigint
    ) x
  ) as deps_count,
  (
    select count(*) from (
      select 1 from /* schema */riverui_workflow_edge e
      where e.workflow_id = t.workflow_id and e.dependency = t.name
      limit :cap::bigint
    ) x
  ) as dependents_count
from /* schema */riverui_workflow_task t
join /* schema */riverui_workflow w on w.id = t.workflow_id
where /* task: */ t.job_id = :job_id::bigint /* :task */;

-- part: workflow_place_by_name (workflow_place_get.task)
t.workflow_id = :id::text and t.name = :name::text;

-- name: workflow_neighbour_list
-- Unfinished ones first.
select t.name, t.job_id, t.state as task_state, j.state::text as job_state, left(j.kind, :name_length::int) as kind
from (
  select t.name, t.job_id, t.state
  from (
    select /* other: */ e.dependency /* :other */ as name from /* schema */riverui_workflow_edge e
    where e.workflow_id = :id::text and /* own: */ e.task /* :own */ = :name::text
    limit :cap::bigint
  ) e
  join /* schema */riverui_workflow_task t on t.workflow_id = :id::text and t.name = e.name
  order by t.state = 'completed', t.name
  limit :most::bigint
) t
left join lateral (
  select j.state, j.kind from /* schema */river_job j where j.id = t.job_id limit 1
) j on true
order by t.state = 'completed', t.name;

-- part: workflow_task_name (workflow_neighbour_list.other)
e.task;

-- part: workflow_dependency_name (workflow_neighbour_list.own)
e.dependency;

-- name: workflow_page_job_list
select /* columns: */ j.id /* :columns */, /* long_columns: */ j.metadata /* :long_columns */
from /* schema */river_job j
where j.id = any(array(
  select t.job_id from /* schema */riverui_workflow_task t
  where t.workflow_id = :id::text
  order by t.job_id
  limit :limit::bigint
))
order by j.id;

-- name: workflow_failed_dep_list
-- Cancelled tasks with a failed dependency.
select w.id, (
    select count(*) from (
      select t.name from /* schema */riverui_workflow_task t
      where t.workflow_id = w.id and t.state = 'cancelled'
      limit :cap::bigint
    ) t
    where exists (
      select from /* schema */riverui_workflow_edge e
      join /* schema */riverui_workflow_task d on d.workflow_id = e.workflow_id and d.name = e.dependency
      where e.workflow_id = w.id and e.task = t.name and d.state in ('cancelled', 'deleted', 'discarded')
    )
  ) as failed_deps
from unnest(:ids::text::text[]) as w (id);
