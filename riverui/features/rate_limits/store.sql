-- Rate limits: a token bucket for each queue and key, stored as the instant at which it is full. Statements must not
-- fail for any value in a row, whoever wrote it, so values outside the allowed range are read as the nearest allowed
-- one. NaN is above all other numbers.

-- part: rate_columns (rate_get.columns)
r.queue, r.key, least(r.limited_to, 1e9) as limited_to, least(r.per, interval '100 years') as per,
least(r.burst, 1e9) as burst,
least(greatest(extract(epoch from r.full_at)::float8, 0), 1e11)
  - extract(epoch from clock_timestamp())::float8 as full_in,
least(r.pace, 1e9) as pace,
extract(epoch from clock_timestamp())::float8
  - least(greatest(extract(epoch from r.spent_at)::float8, 0), 1e11) as spent_seconds_ago;

-- name: rate_open
-- In the order of the keys, to avoid deadlocks.
insert into /* schema */riverui_rate (queue, key, limited_to, per, burst)
select :queue::text, k.key, :limit::float8, :per::interval, :burst::float8
from unnest(:keys::text[]) as k (key)
order by k.key
on conflict (queue, key) do nothing
returning key;

-- name: rate_take
-- Rows are locked in the order of the keys, to avoid deadlocks, and read once they are locked. A bucket takes in
-- nothing after it has been full for the time of `spare` tokens. If the limit has changed, the bucket keeps its number
-- of tokens. Numbers are bounded, so that nothing overflows or underflows, whoever wrote them.
with held as materialized (
  select r.key, case when r.pace > 1e-200 then least(r.pace, 1e9) else 0 end as pace, least(r.burst, 1e9) as burst,
    least(greatest(r.full_at, to_timestamp(0)), to_timestamp(1e11)) as full_at,
    least(greatest(r.spent_at, to_timestamp(0)), to_timestamp(1e11)) as spent_at,
    greatest(least(r.limited_to, 1e9), 1e-200) / extract(epoch from r.per)::float8 as per_second
  from /* schema */riverui_rate r
  where r.queue = :queue::text and r.key = any(:keys::text[])
  order by r.key
  for update
),
level as materialized (
  select h.key, h.pace, c.now, a.tokens, a.unit, extract(epoch from c.now - h.spent_at)::float8 as seconds_ago,
    least(
      :burst::float8 + :spare::float8,
      h.burst + least(:spare::float8, -h.per_second * extract(epoch from h.full_at - c.now)::float8)
    ) as found
  from held h
  join unnest(:keys::text[], :tokens::float8[], :units::float8[]) as a (key, tokens, unit) on a.key = h.key
  cross join lateral (select clock_timestamp() as now where h.key is not null) c
),
given as materialized (
  select l.key, l.pace, l.now, l.tokens, l.unit, l.seconds_ago, l.found,
    case
      when l.tokens <= l.found + 1e-6 or l.tokens = l.unit and :burst::float8 <= l.found + 1e-6 then l.tokens
      else greatest(0, l.unit * floor((l.found + 1e-6) / l.unit))
    end as given
  from level l
)
update /* schema */riverui_rate r
set full_at = g.now + make_interval(secs => (:burst::float8 - g.found + g.given) / :per_second::float8),
  limited_to = :limit::float8,
  per = :per::interval,
  burst = :burst::float8,
  pace = g.pace * exp(-least(greatest(g.seconds_ago, 0) / :pace_seconds::float8, 100))
    + g.given / :pace_seconds::float8,
  spent_at = g.now
from given g
where r.queue = :queue::text and r.key = g.key
returning r.key, g.given, extract(epoch from r.full_at - g.now)::float8 as full_in;

-- name: rate_give_back
with held as materialized (
  select r.key
  from /* schema */riverui_rate r
  where r.queue = :queue::text and r.key = any(:keys::text[])
  order by r.key
  for update
)
update /* schema */riverui_rate r
set full_at = greatest(
    least(r.full_at, clock_timestamp() - make_interval(secs => :spare::float8 / :per_second::float8)),
    greatest(r.full_at, to_timestamp(0)) - make_interval(secs => b.tokens / :per_second::float8)
  ),
  pace = greatest(0, r.pace - b.tokens / :pace_seconds::float8)
from held h
join unnest(:keys::text[], :tokens::float8[]) as b (key, tokens) on b.key = h.key
where r.queue = :queue::text and r.key = h.key
returning r.key;

-- name: rate_list
-- Reads a limited number of buckets, by key.
select /* columns: */ r.key /* :columns */
from (
  select * from /* schema */riverui_rate r where r.queue = :queue::text order by r.key limit :looked_at::bigint
) r
order by r.full_at desc, r.key
limit :limit::bigint;

-- name: rate_get
select /* columns: */ r.key /* :columns */
from /* schema */riverui_rate r
where r.queue = :queue::text and r.key = :key::text;

-- name: rate_delete_full
with seen as materialized (
  select r.queue, r.key
  from /* schema */riverui_rate r
  where (r.queue, r.key) > (:after_queue::text, :after_key::text)
  order by r.queue, r.key
  limit :limit::bigint
),
full_ones as materialized (
  select r.queue, r.key
  from /* schema */riverui_rate r
  join seen s on s.queue = r.queue and s.key = r.key
  where greatest(r.full_at, r.spent_at) < clock_timestamp() - make_interval(secs => :quiet::float8)
  for update of r skip locked
),
gone as (
  delete from /* schema */riverui_rate r
  using full_ones f
  where r.queue = f.queue and r.key = f.key
  returning r.key
)
select (select count(*) from gone) as gone, (select count(*) from seen) as seen,
  (select s.queue from seen s order by s.queue desc, s.key desc limit 1) as queue,
  (select s.key from seen s order by s.queue desc, s.key desc limit 1) as key;
