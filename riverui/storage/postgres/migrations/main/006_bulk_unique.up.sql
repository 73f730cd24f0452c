-- Whether a job's unique key counts in its state: one bit for each state.
create or replace function /* schema */river_job_state_in_bitmask(bitmask bit(8), state /* schema */river_job_state)
returns boolean
language sql
immutable
as $$
  select case state
    when 'available' then get_bit(bitmask, 7)
    when 'cancelled' then get_bit(bitmask, 6)
    when 'completed' then get_bit(bitmask, 5)
    when 'discarded' then get_bit(bitmask, 4)
    when 'pending' then get_bit(bitmask, 3)
    when 'retryable' then get_bit(bitmask, 2)
    when 'running' then get_bit(bitmask, 1)
    when 'scheduled' then get_bit(bitmask, 0)
    else 0
  end = 1;
$$;

-- Both may exist: on a big table one can build the index beforehand, concurrently.
alter table /* schema */river_job add column if not exists unique_states bit(8);
create unique index if not exists river_job_unique_idx
  on /* schema */river_job (unique_key)
  where unique_key is not null
    and unique_states is not null
    and /* schema */river_job_state_in_bitmask(unique_states, state);

drop index /* schema */river_job_kind_unique_key_idx;
