-- Sequences. One transaction at a time writes, so that none has to wait for another one's locks.

-- name: sequence_claim
update riverui_sequence
set stands = iif(head_id is null, 'dry', 'busy')
where seq_key in (select value from json_each(riverui_list(:keys)));
insert into riverui_sequence (seq_key, stands)
select value, 'made' from json_each(riverui_list(:keys)) where true
on conflict do nothing;
select seq_key, stands as found, 0 as "pro:bool"
from riverui_sequence
where seq_key in (select value from json_each(riverui_list(:keys)));

-- name: sequence_claim_dry
-- Keys without a head behind which no job waits. Waiting jobs go first.
select s.seq_key
from riverui_sequence s
where s.seq_key in (select value from json_each(riverui_list(:keys))) and s.head_id is null
  and not exists (select 1 from riverui_sequence_job w where w.seq_key = s.seq_key);

-- name: sequence_put
update riverui_sequence
set head_id = riverui_list(:head_ids) ->> h.key, halted_at = null
from json_each(riverui_list(:head_keys)) h
where riverui_sequence.seq_key = h.value;
insert into riverui_sequence_job (seq_key, job_id)
select w.value, riverui_list(:waiting_ids) ->> w.key from json_each(riverui_list(:waiting_keys)) w;

-- name: sequence_advance
-- As on Postgres. First how the heads stand, and then the next job of each that is over: the first in line that is
-- there, or the head itself if it waits.
update riverui_sequence as s
set next_id = null,
  stands = iif(
    s.head_id in (select value from json_each(riverui_list(:over_ids))), 'over',
    coalesce(
      (
        select case
            when j.state = 'completed' then 'over'
            when j.state = 'cancelled' then iif(
              valid_json(j.metadata) -> '$."riverui:sequence".continue_on_cancelled' = 'true', 'over', 'halted'
            )
            when j.state = 'discarded' then iif(
              valid_json(j.metadata) -> '$."riverui:sequence".continue_on_discarded' = 'true', 'over', 'halted'
            )
            when j.state = 'pending' then 'waits'
            else 'active'
          end
        from river_job j where j.id = s.head_id
      ),
      'over'
    )
  )
where s.seq_key in (select value from json_each(riverui_list(:keys)));
update riverui_sequence as s
set next_id = (
  select min(j.id)
  from (
    select job_id from (
      select w.job_id from riverui_sequence_job w where w.seq_key = s.seq_key order by w.job_id limit :look
    )
    union
    select s.head_id where s.stands = 'waits'
  ) l
  cross join river_job j on j.id = l.job_id
  where case j.state
      when 'completed' then false
      when 'cancelled'
        then valid_json(j.metadata) -> '$."riverui:sequence".continue_on_cancelled' is not 'true'
      when 'discarded'
        then valid_json(j.metadata) -> '$."riverui:sequence".continue_on_discarded' is not 'true'
      else true
    end
)
where s.seq_key in (select value from json_each(riverui_list(:keys))) and s.stands in ('over', 'waits');
insert into river_notification (created_at, payload, topic)
select distinct :now, json_object('queue', j.queue), 'insert'
from riverui_sequence s
cross join river_job j on j.id = s.next_id
where s.seq_key in (select value from json_each(riverui_list(:keys))) and j.state = 'pending'
  and j.scheduled_at <= riverui_after(:now, 5);
update river_job
set state = iif(scheduled_at > riverui_after(:now, 5), 'scheduled', 'available'),
  scheduled_at = max(scheduled_at, :now)
where state = 'pending' and id in (
  select next_id from riverui_sequence where seq_key in (select value from json_each(riverui_list(:keys)))
);
select s.seq_key,
  s.stands in ('over', 'waits') and s.next_id is null
    and exists (select 1 from riverui_sequence_job w where w.seq_key = s.seq_key) as "more:bool"
from riverui_sequence s
where s.seq_key in (select value from json_each(riverui_list(:keys)))
  and (s.stands in ('over', 'waits') or (s.stands = 'halted') <> (s.halted_at is not null));
delete from riverui_sequence_job
where (seq_key, job_id) in (
  select w.seq_key, w.job_id
  from riverui_sequence s
  cross join riverui_sequence_job w on w.seq_key = s.seq_key
  where s.seq_key in (select value from json_each(riverui_list(:keys))) and s.stands in ('over', 'waits')
    and iif(
      s.next_id is null,
      w.job_id in (
        select l.job_id from riverui_sequence_job l where l.seq_key = s.seq_key order by l.job_id limit :look
      ),
      w.job_id <= s.next_id
    )
);
insert into riverui_sequence_job (seq_key, job_id)
select seq_key, head_id from riverui_sequence
where seq_key in (select value from json_each(riverui_list(:keys))) and stands = 'waits' and next_id is not head_id
on conflict do nothing;
update riverui_sequence as s
set head_id = iif(s.stands in ('over', 'waits'), s.next_id, s.head_id),
  halted_at = iif(
    s.stands = 'halted' or s.stands in ('over', 'waits') and exists (
      select 1 from river_job j where j.id = s.next_id and j.state in ('cancelled', 'discarded')
    ),
    :now, null
  )
where s.seq_key in (select value from json_each(riverui_list(:keys)))
  and (s.stands in ('over', 'waits') or (s.stands = 'halted') <> (s.halted_at is not null));

-- name: sequence_key_get_many
select j.id, valid_json(j.metadata) ->> 'seq_key' as seq_key,
  json_type(valid_json(j.metadata), '$."riverui:sequence"') is not null
    and json_type(valid_json(j.metadata), '$.seq_key') = 'text'
    and length(valid_json(j.metadata) ->> 'seq_key') between 1 and 200 as "ours:bool"
from river_job j
where j.id in (select value from json_each(:ids)) and json_type(valid_json(j.metadata), '$.seq_key') is not null;

-- name: sequence_make
insert into riverui_sequence (seq_key)
select value from json_each(riverui_list(:keys)) where true
on conflict do nothing;

-- name: sequence_lock
select seq_key from riverui_sequence where seq_key in (select value from json_each(riverui_list(:keys)));

-- name: sequence_requeue
-- A head that is put in line again, or that halts its key, is no longer the head.
update riverui_sequence
set head_id = null, halted_at = null
where seq_key in (select value from json_each(riverui_list(:keys)))
  and (
    head_id in (select value from json_each(riverui_list(:ids)))
    or exists (select 1 from river_job j where j.id = head_id and j.state in ('cancelled', 'discarded'))
  );
insert into riverui_sequence_job (seq_key, job_id)
select g.value, riverui_list(:ids) ->> g.key from json_each(riverui_list(:keys)) g where true
on conflict do nothing;

-- name: sequence_pro_columns
-- River Pro's table is not known here.
select '' as name, 0 as "is_text:bool", 0 as "needed:bool" where false;

-- name: sequence_hand_over
select value from json_each(riverui_list(:keys)) where false;

-- name: sequence_place
with line as materialized (
  select w.job_id
  from river_job j
  cross join riverui_sequence_job w on w.seq_key = valid_json(j.metadata) ->> 'seq_key'
  where j.id = :id
),
near as materialized (
  select x.job_id, coalesce(o.state, '') as state, coalesce(substr(o.kind, 1, 200), '') as kind
  from (
    select * from (select job_id from line where job_id < :id order by job_id desc limit :named)
    union all
    select * from (select job_id from line where job_id > :id order by job_id limit :named)
  ) x
  left join river_job o on o.id = x.job_id
  order by x.job_id
)
select s.seq_key, q.head_id, q.halted_at as "halted_at:time", h.state as head_state,
  exists (
    select 1 from riverui_sequence_job w where w.seq_key = s.seq_key and w.job_id = :id
  ) as "waiting:bool",
  (
    select count(*) from (
      select 1 from riverui_sequence_job w where w.seq_key = s.seq_key and w.job_id < :id limit :limit
    )
  ) as ahead,
  (
    select count(*) from (
      select 1 from riverui_sequence_job w where w.seq_key = s.seq_key and w.job_id > :id limit :limit
    )
  ) as behind,
  (select json_group_array(n.job_id) from near n) as "near_ids:json",
  (select json_group_array(n.state) from near n) as "near_states:json",
  (select json_group_array(n.kind) from near n) as "near_kinds:json"
from (
  select valid_json(metadata) ->> 'seq_key' as seq_key
  from river_job
  where id = :id and json_type(valid_json(metadata), '$."riverui:sequence"') is not null
    and json_type(valid_json(metadata), '$.seq_key') = 'text'
) s
left join riverui_sequence q on q.seq_key = s.seq_key
left join river_job h on h.id = q.head_id;

-- name: sequence_skip
-- As the head of its sequence, or as one that would halt it later.
select seq_key from riverui_sequence
where seq_key = :key and head_id = :id
  and exists (select 1 from river_job j where j.id = :id and j.state in ('cancelled', 'discarded'))
union all
select seq_key from riverui_sequence_job
where seq_key = :key and job_id = :id
  and exists (select 1 from river_job j where j.id = :id and j.state in ('cancelled', 'discarded'));
update riverui_sequence
set head_id = null, halted_at = null
where seq_key = :key and head_id = :id
  and exists (select 1 from river_job j where j.id = :id and j.state in ('cancelled', 'discarded'));
delete from riverui_sequence_job
where seq_key = :key and job_id = :id
  and exists (select 1 from river_job j where j.id = :id and j.state in ('cancelled', 'discarded'));

-- name: sequence_dry_list
select seq_key from riverui_sequence where head_id is null and seq_key > :after order by seq_key limit :limit;

-- name: sequence_lock_dry
select seq_key
from riverui_sequence
where seq_key in (select value from json_each(riverui_list(:keys))) and head_id is null;

-- name: sequence_forget
delete from riverui_sequence
where seq_key in (select value from json_each(riverui_list(:keys))) and head_id is null
  and not exists (select 1 from riverui_sequence_job w where w.seq_key = riverui_sequence.seq_key)
returning seq_key;

-- name: sequence_list_heads
select p.seq_key,
  p.head_id is not null and (
    h.id is null or h.state in ('completed', 'pending')
    or (h.state in ('cancelled', 'discarded')) <> (p.halted_at is not null)
  ) as "due:bool",
  p.head_id is null as "dry:bool"
from (
  select seq_key, head_id, halted_at from riverui_sequence where seq_key > :after order by seq_key limit :limit
) p
left join river_job h on h.id = p.head_id
order by p.seq_key;
