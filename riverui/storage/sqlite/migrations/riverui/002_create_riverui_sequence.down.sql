drop table riverui_sequence_job;
drop table riverui_sequence;
