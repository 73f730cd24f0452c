-- Rate limits: the token bucket of each queue and key. A bucket fills by itself, so the time at which it is full is its
-- whole state: taking tokens moves that time forward. A bucket without a row is full. Only the primary key is indexed
-- and pages have free space, so that a bucket's row is updated in place.
create table /* schema */riverui_rate (
  queue text not null,
  key text not null,
  full_at timestamptz not null default clock_timestamp(),
  limited_to double precision not null default 1,
  per interval not null default interval '1 second',
  burst double precision not null default 1,
  pace double precision not null default 0,
  spent_at timestamptz not null default clock_timestamp(),
  constraint riverui_rate_pkey primary key (queue, key),
  constraint riverui_rate_numbers check (limited_to > 0 and per > interval '0' and burst >= 1 and pace >= 0),
  constraint riverui_rate_lengths check (char_length(queue) between 1 and 128 and octet_length(key) <= 2000)
) with (fillfactor = 50);

comment on table /* schema */riverui_rate is 'Rate limits of queues: a bucket of tokens for each key, kept by riverui';
comment on column /* schema */riverui_rate.full_at is 'When the bucket is full again, if nobody takes a token';
comment on column /* schema */riverui_rate.limited_to is
  'Tokens that come in each span of `per`, by the settings of the client that took some last';
comment on column /* schema */riverui_rate.pace is 'Tokens a second that were taken lately, at the time of `spent_at`';
