create table if not exists observations (
    id bigint generated always as identity primary key,
    scope text not null,
    body text not null
);

create index if not exists observations_scope on observations (scope);

-- Of the plain relay alone. A row is deleted once it was delivered, so the table stays small.
create table if not exists observations_outbox (
    id bigint generated always as identity primary key,
    scope text not null,
    attempt integer not null default 0,
    next_attempt_at timestamptz not null default now(),
    claimed_by text,
    claimed_until timestamptz,
    error text
);

-- Poisoned rows are kept for people to look at, and no scan passes them.
create index if not exists observations_outbox_due on observations_outbox (next_attempt_at)
    where claimed_by is distinct from 'POISON';
