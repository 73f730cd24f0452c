-- The jobs, a state at a time in `plan`, then in the order of their creation; a, b and c are each job's dice.
insert into river_job (id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority,
  args, attempted_by, errors, kind, metadata, queue, tags, unique_key, unique_states)
select id, state, attempt, 25, attempted_at, created_at,
  case when state in ('completed', 'discarded', 'cancelled')
    then least(coalesce(attempted_at, created_at) + b * b * interval '20 seconds', now()) end,
  case state when 'scheduled' then now() + c * interval '24 hours'
    when 'retryable' then now() + c * c * interval '2 hours' else created_at end,
  1 + width_bucket(c, %(priorities)s::float8[]),
  jsonb_build_object('user_id', (a * 50000)::int, 'order_id', id, 'amount', round((b * 900)::numeric, 2),
    'source', (array['web', 'api', 'cron'])[1 + floor(c * 3)::int], 'region', 'eu-' || (b * 4)::int,
    'email', 'user' || (a * 50000)::int || '@example.com', 'note', md5(id::text) || md5((id * 7)::text)),
  case when attempt > 0 then array_fill('worker-' || (b * 12)::int || '_2026_11_21T06_00_00_000000', array[attempt])
    end,
  case when state in ('discarded', 'retryable') or (state = 'completed' and c > 0.97) then (
    select array_agg(jsonb_build_object('at', attempted_at - n * interval '90 seconds', 'attempt', n, 'trace', '',
      'error', (array['timeout', 'connection refused', 'bad gateway'])[1 + n %% 3] || ': upstream ' || md5(id::text))
      order by n)
    from generate_series(1, least(attempt, 5)) n) end,
  case when c < 0.02 and created_at < now() - interval '23 hours' then 'kind_retired'
    else 'kind_' || lpad(floor(40 * a * a * a)::int::text, 2, '0') end,
  case when b < 0.85 then '{}'
    when b < 0.97 then jsonb_build_object('trace_id', md5(id::text), 'tenant', (a * 900)::int)
    else jsonb_build_object('output', jsonb_build_object('rows', id %% 1000), 'river:log', jsonb_build_array(
      jsonb_build_object('attempt', 1, 'log',
        repeat('level=INFO msg="a step of the work is done"' || chr(10), 8)))) end,
  (%(queues)s::text[])[1 + floor(8 * power(a * b, %(queue_skew)s))::int],
  case when c < 0.6 then '{}' when c < 0.9 then array[(array['daily', 'import', 'vip'])[1 + floor(b * 3)::int]]
    else array['tenant-' || (b * 2000)::int, 'daily'] end::varchar(255)[],
  case when b between 0.40 and 0.45 then sha256(id::text::bytea) end,
  case when b between 0.40 and 0.45 then b'11110101' end
from (
  select %(history)s + row_number() over (order by created_at) as id, state, created_at,
    random() as a, random() as b, random() as c,
    case state when 'available' then 0 when 'scheduled' then 0 when 'pending' then 0 when 'discarded' then 25
      when 'retryable' then 1 + (random() * 6)::int else 1 end as attempt,
    case when state not in ('available', 'scheduled', 'pending')
      then least(created_at + random() * random() * interval '30 seconds', now()) end as attempted_at
  from (
    select mix.state::river_job_state as state, now() - random() * mix.hours * interval '1 hour' as created_at
    from unnest(%(states)s::text[], %(rows)s::bigint[], %(hours)s::float8[]) mix(state, rows, hours)
    cross join lateral generate_series(1, mix.rows)) plan) job
order by id
