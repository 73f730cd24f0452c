drop table /* schema */riverui_rollup;
