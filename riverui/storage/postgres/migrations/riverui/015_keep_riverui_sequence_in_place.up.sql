-- A key with a new head keeps its entries in all indexes, as long as none of them contains the head.
drop index /* schema */riverui_sequence_dry;

alter table /* schema */riverui_sequence
  add column dry boolean not null generated always as (head_id is null) stored;

create index riverui_sequence_dry on /* schema */riverui_sequence using btree (seq_key) where dry;

comment on column /* schema */riverui_sequence.dry is 'Whether it has no head';
