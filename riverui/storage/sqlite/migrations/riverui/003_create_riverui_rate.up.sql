-- Rate limits: the bucket of each queue and key, as on Postgres. Times are seconds since 1970, as a bucket may fill a
-- thousand times within a millisecond; `given` is what the last statement gave.
create table riverui_rate (
  queue text not null,
  key text not null,
  full_at real not null,
  limited_to real not null,
  per real not null,
  burst real not null,
  pace real not null default 0,
  spent_at real not null,
  given real not null default 0,
  constraint riverui_rate_pkey primary key (queue, key),
  constraint riverui_rate_numbers check (limited_to > 0 and per > 0 and burst >= 1 and pace >= 0)
) without rowid;
