"""River Pro's tables, as far as they are known from outside."""

from __future__ import annotations

PRO_TABLES = """
create table river_periodic_job (
  id text primary key, created_at timestamptz not null default now(), next_run_at timestamptz not
  null,
  updated_at timestamptz not null default now()
);
create unlogged table river_producer (
  id bigserial primary key, client_id text not null, queue_name text not null, max_workers int not
  null,
  metadata jsonb not null default '{}', paused_at timestamptz, created_at timestamptz not null
  default now(),
  updated_at timestamptz not null default now()
);
create table river_workflow (id text primary key, name text, current_attempt int not null default
0);
create table river_workflow_signal (
  id bigserial primary key, workflow_id text not null, attempt int not null, key text not null,
  payload jsonb not null default '{}', source jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create table river_workflow_attempt ();
create table river_workflow_attempt_task ();
create table river_workflow_timer ();
create table river_workflow_worklist ();
create table river_job_sequence (key text primary key);
"""
