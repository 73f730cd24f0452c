-- Figures of attempts that only clients know, and an index to find their reports without reading the rest.
alter table /* schema */riverui_rollup
  add column snoozed bigint not null default 0,
  add column interrupted bigint not null default 0,
  add constraint riverui_rollup_client_numbers check (snoozed >= 0 and interrupted >= 0);

create index riverui_rollup_clients on /* schema */riverui_rollup using btree (bucket) where source <> '';

comment on column /* schema */riverui_rollup.source is
  'Empty for what charts show; else what one client told of a minute of its own, or * for several clients together';
