-- Version 6 creates the real table of jobs.
create table river_job (id integer primary key);
create table river_leader (
    elected_at timestamp not null,
    expires_at timestamp not null,
    leader_id text not null,
    name text primary key not null,
    constraint name_length check (length(name) > 0 and length(name) < 128),
    constraint leader_id_length check (length(leader_id) > 0 and length(leader_id) < 128)
);
