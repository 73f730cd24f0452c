-- The app's own tables. They share the schema `documents` with River's (river_job, …) and riverui's (riverui_…).

create schema if not exists documents;

-- What came in together: one call of the webhook, or one look at the inbox. Its workflow has a task for each file.
create table if not exists upload (
    id text primary key,
    customer text not null,
    workflow_id text not null,
    created_at timestamptz not null default now()
);

create table if not exists document (
    id bigint generated always as identity primary key,
    upload_id text not null references upload on delete cascade,
    name text not null,
    content text not null, -- in place of a key in a bucket
    job_id bigint, -- the parent job of this file
    pages integer, -- once it is split
    completed_at timestamptz
);

create index if not exists document_upload on document (upload_id);

create table if not exists page (
    document_id bigint not null references document on delete cascade,
    number integer not null,
    content text not null,
    vector double precision [], -- once it is embedded
    primary key (document_id, number)
);

-- In place of a search engine. The primary key stores a page once, however often it is sent.
create table if not exists search_index (
    document_id bigint not null,
    page integer not null,
    vector double precision [] not null,
    primary key (document_id, page)
);
