-- Rate limits: a token bucket for each queue and key, stored as the instant at which it is full.

-- part: rate_columns (rate_get.columns)
queue, key, min(limited_to, 1e9) as limited_to, min(per, 3e9) as "per:span", min(burst, 1e9) as burst,
full_at - riverui_epoch(:now) as full_in, min(pace, 1e9) as pace, riverui_epoch(:now) - spent_at as spent_seconds_ago;

-- name: rate_open
insert into riverui_rate (queue, key, full_at, limited_to, per, burst, spent_at)
select :queue, value, riverui_epoch(:now), :limit, :per, :burst, riverui_epoch(:now)
from json_each(riverui_list(:keys)) where true
on conflict (queue, key) do nothing;

-- name: rate_take
-- A bucket takes in nothing after it has been full for the time of `spare` tokens. If the limit has changed, the bucket
-- keeps its number of tokens.
update riverui_rate as r
set full_at = riverui_epoch(:now) + (:burst - g.found + g.given) / :per_second,
  limited_to = :limit,
  per = :per,
  burst = :burst,
  pace = riverui_decayed(r.pace, (riverui_epoch(:now) - r.spent_at) / :pace_seconds) + g.given / :pace_seconds,
  spent_at = riverui_epoch(:now),
  given = g.given
from (
  select l.key, l.found,
    case
      when l.tokens <= l.found + 1e-6 or l.tokens = l.unit and :burst <= l.found + 1e-6 then l.tokens
      else max(0, l.unit * cast((l.found + 1e-6) / l.unit as integer))
    end as given
  from (
    select o.key, riverui_list(:tokens) ->> a.key as tokens, riverui_list(:units) ->> a.key as unit,
      min(
        :burst + :spare,
        o.burst + min(:spare, -o.limited_to / o.per * (o.full_at - riverui_epoch(:now)))
      ) as found
    from json_each(riverui_list(:keys)) a
    cross join riverui_rate o on o.queue = :queue and o.key = a.value
  ) l
) g
where r.queue = :queue and r.key = g.key;
select key, given, full_at - riverui_epoch(:now) as full_in
from riverui_rate
where queue = :queue and key in (select value from json_each(riverui_list(:keys)));

-- name: rate_give_back
update riverui_rate as r
set full_at = max(
    min(r.full_at, riverui_epoch(:now) - :spare / :per_second), r.full_at - b.tokens / :per_second
  ),
  pace = max(0, r.pace - b.tokens / :pace_seconds)
from (
  select value as key, riverui_list(:tokens) ->> key as tokens from json_each(riverui_list(:keys))
) b
where r.queue = :queue and r.key = b.key;

-- name: rate_list
-- Reads a limited number of buckets, by key.
select /* columns: */ key /* :columns */
from (select * from riverui_rate where queue = :queue order by key limit :looked_at)
order by full_at desc, key
limit :limit;

-- name: rate_get
select /* columns: */ key /* :columns */ from riverui_rate where queue = :queue and key = :key;

-- name: rate_delete_full
with seen as materialized (
  select queue, key, max(full_at, spent_at) < riverui_epoch(:now) - :quiet as unused
  from riverui_rate
  where (queue, key) > (:after_queue, :after_key)
  order by queue, key
  limit :limit
)
select coalesce(sum(unused), 0) as gone, count(*) as seen,
  (select queue from seen order by queue desc, key desc limit 1) as queue,
  (select key from seen order by queue desc, key desc limit 1) as key
from seen;
delete from riverui_rate
where max(full_at, spent_at) < riverui_epoch(:now) - :quiet and (queue, key) in (
  select queue, key from riverui_rate where (queue, key) > (:after_queue, :after_key) order by queue, key limit :limit
);
