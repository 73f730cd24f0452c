-- An outbox for notifications, which River does not use on Postgres so far.
create table /* schema */river_notification (
  id bigserial primary key,
  created_at timestamptz not null default now(),
  payload text not null,
  topic text not null,
  constraint topic_length check (length(topic) > 0 and length(topic) < 128)
);

create index river_notification_created_at_idx on /* schema */river_notification (created_at);
create index river_notification_topic_id_idx on /* schema */river_notification (topic, id);

drop table /* schema */river_client_queue;
drop table /* schema */river_client;

alter table /* schema */river_job alter column max_attempts set default 25;
alter table /* schema */river_queue alter column updated_at set default current_timestamp;
