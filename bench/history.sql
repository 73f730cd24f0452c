-- One slice of a long history: completed jobs with small args, the oldest slice first, in the order of their creation.
insert into river_job (id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority,
  args, kind, metadata, queue)
select id, 'completed', 1, 25, created_at + a * interval '5 seconds', created_at,
  created_at + a * interval '5 seconds' + b * b * interval '20 seconds', created_at,
  1 + width_bucket(c, %(priorities)s::float8[]),
  jsonb_build_object('user_id', (a * 50000)::int),
  case when c < 0.02 and created_at < now() - interval '23 hours' then 'kind_retired'
    else 'kind_' || lpad(floor(40 * a * a * a)::int::text, 2, '0') end,
  '{}', (%(queues)s::text[])[1 + floor(8 * power(a * b, %(queue_skew)s))::int]
from (
  select n as id, now() - interval '24 hours' + n * (interval '23 hours' / %(rows)s) as created_at,
    random() as a, random() as b, random() as c
  from generate_series(%(first)s::bigint, %(last)s::bigint) n) job
