alter table /* schema */riverui_rollup drop column cpu_us, drop column cpu_attempts;
