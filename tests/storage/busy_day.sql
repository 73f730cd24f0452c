-- A busy day: most jobs completed, a backlog in 6 queues, a kind and a queue that only old jobs have. Job n of `rows`
-- was made 400 ms after the one before it.

-- name: busy_day
insert into river_job (
  id, state, attempt, attempted_at, created_at, finalized_at, scheduled_at, priority,
  args, attempted_by, errors, kind, metadata, queue, tags
)
select
  n,
  s.state,
  1,
  t.at,
  t.at,
  case when s.state in ('completed', 'discarded', 'cancelled') then t.at end,
  case
    when s.state in ('scheduled', 'retryable') then now() + mod(n, 5000) * interval '1 second'
    else t.at
  end,
  case when mod(n, 10) < 8 then 1 else 1 + mod(n, 4) end,
  jsonb_build_object('n', n, 'source', (array['web', 'api', 'cron'])[1 + mod(n, 3)]),
  array['host_' || mod(n, 5)],
  case when mod(n, 20) = 0 then array['{"attempt": 1, "error": "boom"}'::jsonb] end,
  case
    when n <= 300 then 'retired'
    when mod(n, 50) = 0 then 'uncommon'
    else 'kind_' || mod(n, 20)
  end,
  case when mod(n, 1000) = 0 then jsonb_build_object('tenant', n) else '{}' end,
  case when n <= 300 then 'retired' else 'queue_' || mod(n, 6) end,
  array['tag_' || mod(n, 1000)]
from generate_series(1, :rows::int) as n
cross join lateral (select now() - (:rows::int - n) * interval '400 ms' as at) as t
cross join lateral (
  select case
    when mod(n, 100) < 80 then 'completed'
    when mod(n, 100) < 90 then 'available'
    when mod(n, 100) < 93 then 'scheduled'
    when mod(n, 100) < 96 then 'retryable'
    when mod(n, 100) < 98 then 'discarded'
    when mod(n, 1000) = 98 then 'running'
    when mod(n, 1000) = 99 then 'cancelled'
    else 'completed'
  end::river_job_state as state
) as s;
