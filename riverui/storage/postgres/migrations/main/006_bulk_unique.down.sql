drop index /* schema */river_job_unique_idx;

alter table /* schema */river_job drop column unique_states;

create unique index if not exists river_job_kind_unique_key_idx
  on /* schema */river_job (kind, unique_key)
  where unique_key is not null;

drop function /* schema */river_job_state_in_bitmask;
