create table river_queue (
    name text primary key not null,
    created_at timestamp not null default current_timestamp,
    metadata blob not null default (json('{}')),
    paused_at timestamp,
    updated_at timestamp not null
);
drop table river_leader;
create table river_leader (
    elected_at timestamp not null,
    expires_at timestamp not null,
    leader_id text not null,
    name text primary key not null default 'default' check (name = 'default'),
    constraint name_length check (length(name) > 0 and length(name) < 128),
    constraint leader_id_length check (length(leader_id) > 0 and length(leader_id) < 128)
);
