{{/* By what KEDA scales workers. */}}

{{/* The names of the queues whose jobs count, as JSON {"names": […]}. Takes a worker. */}}
{{- define "riverui.scaledQueues" -}}
{{- $names := list -}}
{{- range default .queues .autoscaling.queues -}}
{{- $names = append $names (regexReplaceAll "=.*$" . "") -}}
{{- end -}}
{{- if not $names -}}
{{- fail (printf "worker %s: name in its queues, or in autoscaling.queues, the queues whose jobs it is scaled by" .name) -}}
{{- end -}}
{{- dict "names" ($names | uniq) | toJson -}}
{{- end -}}

{{/*
How many jobs there are to do: available ones, those whose time has come (scheduled, retryable: without a leader nobody
makes them available), and those that run. Jobs of paused queues wait for people, not for workers. More than all replicas
can have at once makes no difference, so no count goes further than that: in the order of River's own index (state, queue,
priority, scheduled_at, id) each reads so many of its entries at most, whatever else is in the table.
*/}}
{{- define "riverui.waitingQuery" -}}
{{- $scaling := .worker.autoscaling -}}
{{- $most := mul (int $scaling.maxReplicas) (int $scaling.jobsPerReplica) -}}
{{- $schema := ternary (printf "\"%s\"." .schema) "" (ne (default "" .schema) "") -}}
{{- $names := (include "riverui.scaledQueues" .worker | fromJson).names -}}
select coalesce(sum(found.jobs), 0)::bigint
from (
  select given.name, exists (
    select 1 from {{ $schema }}river_queue q where q.name = given.name and q.paused_at is not null
  ) as paused
  from (values ('{{ join "'), ('" $names }}')) as given (name)
) as queue
cross join lateral (
  select count(*) as jobs from (
    select 1 from {{ $schema }}river_job j
    where j.state = 'available' and j.queue = queue.name and not queue.paused
    order by j.priority, j.scheduled_at, j.id limit {{ $most }}
  ) as available
{{- range $state := list "retryable" "scheduled" }}
  union all
  select count(*) from (values (1), (2), (3), (4)) as of (priority)
  cross join lateral (
    select 1 from {{ $schema }}river_job j
    where j.state = '{{ $state }}' and j.queue = queue.name and not queue.paused
      and j.priority = of.priority and j.scheduled_at <= now()
    order by j.scheduled_at, j.id limit {{ $most }}
  ) as due
{{- end }}
{{- if $scaling.countRunning }}
  union all
  select count(*) from (
    select 1 from {{ $schema }}river_job j
    where j.state = 'running' and j.queue = queue.name
    order by j.priority, j.scheduled_at, j.id limit {{ $most }}
  ) as running
{{- end }}
) as found
{{- end -}}

{{/*
The same by the dashboard's /metrics, which every dashboard tells alike (max by). It is 0 without jobs, and nothing at all
while no dashboard with a database is scraped: then KEDA changes nothing, or falls back.
*/}}
{{- define "riverui.waitingPromQL" -}}
{{- $scaling := .worker.autoscaling -}}
{{- $names := list -}}
{{- range (include "riverui.scaledQueues" .worker | fromJson).names -}}
{{- $names = append $names (regexQuoteMeta .) -}}
{{- end -}}
{{- $extra := $scaling.prometheus.matchers -}}
{{- $queues := printf "queue=~%s" (join "|" $names | printf "%q") -}}
{{- $all := ternary (printf "{%s}" $extra) "" (ne $extra "") -}}
{{- $and := ternary (printf ", %s" $extra) "" (ne $extra "") -}}
sum(
  max by (queue, state) (river_queue_jobs{ {{- $queues }}, state="available"{{ $and }}})
    unless on (queue) max by (queue) (river_queue_paused{{ $all }}) == 1
{{- if $scaling.countRunning }}
  or max by (queue, state) (river_queue_jobs{ {{- $queues }}, state="running"{{ $and }}})
{{- end }}
)
or 0 * max(riverui_database_up{{ $all }} == 1)
{{- end -}}
