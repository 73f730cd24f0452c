-- Bulk actions on all matching jobs: the request, its author, its progress, and the dashboard that runs it.
create table /* schema */riverui_operation (
  id text not null,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  status text not null default 'running',
  verb text not null,
  parameters jsonb not null default '{}',
  features text not null default '',
  username text not null default '',
  allowed text not null,
  query text not null,
  sort text not null,
  cutoff_id bigint not null,
  cutoff_at timestamptz not null,
  total bigint not null,
  total_kind text not null,
  changed bigint not null default 0,
  requested bigint not null default 0,
  skipped jsonb not null default '{}',
  cursor_at timestamptz,
  cursor_id bigint,
  stopped_by text,
  error text not null default '',
  holder text,
  fence bigint not null default 0,
  held_until timestamptz not null default now(),
  constraint riverui_operation_pkey primary key (id),
  constraint riverui_operation_status_known check (status in ('running', 'stopping', 'done', 'stopped', 'failed')),
  constraint riverui_operation_ended_where_status_says check ((ended_at is null) = (status in ('running', 'stopping'))),
  constraint riverui_operation_sort_known check (sort in ('time', '-time', 'id', '-id')),
  constraint riverui_operation_total_kind_known check (total_kind in ('exact', 'at_least', 'estimated')),
  constraint riverui_operation_objects check (
    jsonb_typeof(parameters) = 'object' and jsonb_typeof(skipped) = 'object'
  ),
  constraint riverui_operation_lengths check (
    char_length(id) between 1 and 100 and char_length(verb) between 1 and 100 and char_length(error) <= 1000
    and octet_length(query) <= 65536 and octet_length(parameters::text) <= 65536
    and octet_length(skipped::text) <= 65536
  )
);

create index riverui_operation_newest on /* schema */riverui_operation using btree (created_at, id);
create index riverui_operation_unfinished on /* schema */riverui_operation using btree (created_at)
  where ended_at is null;
create index riverui_operation_ended_at on /* schema */riverui_operation using btree (ended_at)
  where ended_at is not null;

comment on table /* schema */riverui_operation is 'Actions on all matching jobs, kept by riverui';
