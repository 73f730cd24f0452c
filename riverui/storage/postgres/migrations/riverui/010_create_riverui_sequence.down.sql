drop table /* schema */riverui_sequence_job;
drop table /* schema */riverui_sequence;
