-- The app's own tables. They share the schema `orchestrator` with River's (river_job, river_queue, ...).

create schema if not exists orchestrator;

create table if not exists memory_drawers (
    id bigint generated always as identity primary key,
    workspace text not null,
    content text not null,
    state text not null check (state in ('raw', 'processed')),
    memory_type text,
    pipeline_tier text check (pipeline_tier in ('heuristic', 'centroid', 'llm')),
    importance double precision not null,
    entity_count integer not null default 0,
    created_at timestamptz not null default now()
);

create table if not exists memory_entities (
    drawer_id bigint not null references memory_drawers on delete cascade,
    entity text not null,
    primary key (drawer_id, entity)
);

create table if not exists memory_type_centroids (
    memory_type text primary key,
    vector double precision [] not null,
    source_hash text not null,
    updated_at timestamptz not null default now()
);

create table if not exists messages (
    id bigint generated always as identity primary key,
    chat text not null,
    text text not null,
    state text not null check (state in ('pending', 'sent', 'failed')),
    created_at timestamptz not null default now()
);

create table if not exists model_pricing (
    model text not null,
    input_usd double precision not null,
    output_usd double precision not null,
    fetched_at timestamptz not null default now()
);
