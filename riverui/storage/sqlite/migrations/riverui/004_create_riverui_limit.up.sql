-- Limits of how many jobs run at once, and the clients that work limited queues, as on Postgres.
create table riverui_limit (
  queue text not null,
  key text not null,
  taken integer not null default 0,
  asked integer not null default 0,
  leases text not null default '{}',
  wanted integer not null default 0,
  freed integer not null default 0,
  updated_at text not null,
  constraint riverui_limit_pkey primary key (queue, key),
  constraint riverui_limit_numbers check (taken >= 0 and asked >= 0)
) without rowid;

create table riverui_producer (
  id integer not null primary key autoincrement,
  client_id text not null,
  queue text not null,
  max_workers integer not null,
  concurrency text not null,
  running text not null default '{}',
  created_at text not null,
  updated_at text not null,
  constraint riverui_producer_key unique (client_id, queue)
);
