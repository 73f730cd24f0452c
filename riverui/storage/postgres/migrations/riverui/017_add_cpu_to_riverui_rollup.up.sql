-- The processor time of attempts, which only clients know.
alter table /* schema */riverui_rollup
  add column cpu_us bigint not null default 0,
  add column cpu_attempts bigint not null default 0,
  add constraint riverui_rollup_cpu_numbers check (cpu_us >= 0 and cpu_attempts >= 0);

comment on column /* schema */riverui_rollup.cpu_attempts is
  'The attempts that cpu_us is the processor time of';
