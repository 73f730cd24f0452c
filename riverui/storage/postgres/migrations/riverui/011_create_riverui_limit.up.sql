-- Limits of how many jobs run at once. A row is one partition of a queue: how many of its slots each client has
-- borrowed. Only the primary key is indexed and pages have free space, so that borrowing updates a row in place.
create table /* schema */riverui_limit (
  queue text not null,
  key text not null,
  taken integer not null default 0,
  asked integer not null default 0,
  leases jsonb not null default '{}',
  wanted boolean not null default false,
  freed boolean not null default false,
  updated_at timestamptz not null default clock_timestamp(),
  constraint riverui_limit_pkey primary key (queue, key),
  constraint riverui_limit_numbers check (taken >= 0 and asked >= 0),
  constraint riverui_limit_leases_object check (jsonb_typeof(leases) = 'object'),
  constraint riverui_limit_lengths check (char_length(queue) between 1 and 128 and octet_length(key) <= 2000)
) with (fillfactor = 50);

comment on table /* schema */riverui_limit is 'Slots of limited queues and who has borrowed them, kept by riverui';
comment on column /* schema */riverui_limit.leases is 'Client, with when it registered → slots; their sum is taken';
comment on column /* schema */riverui_limit.asked is 'How many slots the client of the last change wanted to have';
comment on column /* schema */riverui_limit.wanted is 'Whether a client got fewer slots than it asked for';
comment on column /* schema */riverui_limit.freed is 'Whether the last change gave back slots that were wanted';

-- A client that works a limited queue.
create table /* schema */riverui_producer (
  id bigint not null generated always as identity,
  client_id text not null,
  queue text not null,
  max_workers integer not null,
  concurrency jsonb not null,
  running jsonb not null default '{}',
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  constraint riverui_producer_pkey primary key (client_id, queue),
  constraint riverui_producer_id_key unique (id),
  constraint riverui_producer_numbers check (max_workers >= 0),
  constraint riverui_producer_objects check (
    jsonb_typeof(concurrency) = 'object' and jsonb_typeof(running) = 'object'
  ),
  constraint riverui_producer_lengths check (
    char_length(client_id) between 1 and 100 and char_length(queue) between 1 and 128
    and octet_length(concurrency::text) <= 65536 and octet_length(running::text) <= 1048576
  )
) with (fillfactor = 50);

comment on table /* schema */riverui_producer is 'Clients as they work limited queues, kept by riverui';
