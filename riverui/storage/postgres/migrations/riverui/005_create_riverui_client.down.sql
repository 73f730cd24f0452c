drop table /* schema */riverui_client;
