drop index /* schema */riverui_sequence_dry;

alter table /* schema */riverui_sequence drop column dry;

create index riverui_sequence_dry on /* schema */riverui_sequence using btree (seq_key) where head_id is null;
