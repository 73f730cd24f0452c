-- Working clients, a row for each start of one: its heartbeats and its running jobs. A client without a heartbeat for
-- too long is marked as dead for good: it starts again with another row. Only the primary key is indexed and pages have
-- free space, so that a heartbeat updates its row in place.
create table /* schema */riverui_client (
  id text not null,
  registered_at timestamptz not null default clock_timestamp(),
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  heartbeat_interval interval not null,
  host text not null default '',
  pid bigint not null default 0,
  language text not null default '',
  version text not null default '',
  release text not null default '',
  queues jsonb not null default '{}',
  periodic jsonb not null default '{}',
  running integer not null default 0,
  loop_lag double precision,
  memory bigint,
  declared_dead_at timestamptz,
  declared_dead_by text,
  rescued_at timestamptz,
  rescued integer not null default 0,
  constraint riverui_client_pkey primary key (id, registered_at),
  constraint riverui_client_interval_positive check (heartbeat_interval > interval '0'),
  constraint riverui_client_dead_before_rescued check (rescued_at is null or declared_dead_at is not null),
  constraint riverui_client_numbers check (
    pid >= 0 and running >= 0 and loop_lag >= 0 and memory >= 0 and rescued >= 0
  ),
  constraint riverui_client_objects check (jsonb_typeof(queues) = 'object' and jsonb_typeof(periodic) = 'object'),
  constraint riverui_client_lengths check (
    char_length(id) between 1 and 100 and char_length(host) <= 255 and char_length(language) <= 100
    and char_length(version) <= 100 and char_length(release) <= 200 and char_length(declared_dead_by) <= 200
    and octet_length(queues::text) <= 65536 and octet_length(periodic::text) <= 65536
  )
) with (fillfactor = 50);

comment on table /* schema */riverui_client is 'Clients at work and their signs of life, kept by riverui';
