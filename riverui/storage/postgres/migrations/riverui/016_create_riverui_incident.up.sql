-- Incidents: problems with a beginning and an end, and what was usual before each. A lease names the dashboard that
-- opens and closes them. Alerts are sent of them, unless they are silenced.
create table /* schema */riverui_incident (
  id text not null,
  found_at timestamptz not null default now(),
  opened_at timestamptz not null,
  seen_at timestamptz not null,
  good_since timestamptz,
  closed_at timestamptz,
  cause text not null,
  subject_is text not null default '',
  subject text not null default '',
  level text not null,
  title text not null,
  headline text not null default '',
  facts jsonb not null default '{}',
  deeds jsonb not null default '[]',
  note text not null default '',
  noted_at timestamptz,
  noted_by text not null default '',
  constraint riverui_incident_pkey primary key (id),
  constraint riverui_incident_level_known check (level in ('warn', 'critical')),
  constraint riverui_incident_json check (jsonb_typeof(facts) = 'object' and jsonb_typeof(deeds) = 'array'),
  constraint riverui_incident_lengths check (
    char_length(id) between 1 and 100 and char_length(cause) between 1 and 100 and char_length(subject_is) <= 100
    and char_length(subject) <= 200 and char_length(title) <= 1000 and char_length(headline) <= 2000
    and octet_length(facts::text) <= 65536 and octet_length(deeds::text) <= 65536
    and char_length(note) <= 4000 and char_length(noted_by) <= 200
  )
);

create index riverui_incident_newest on /* schema */riverui_incident using btree (opened_at, id);
create index riverui_incident_open on /* schema */riverui_incident using btree (opened_at, id) where closed_at is null;

comment on table /* schema */riverui_incident is 'Problems with a beginning and an end, kept by riverui';
comment on column /* schema */riverui_incident.opened_at is 'When it began, which is before it was found';
comment on column /* schema */riverui_incident.deeds is 'What people did while it was open';
comment on column /* schema */riverui_incident.seen_at is 'When its cause was there for the last time';

create table /* schema */riverui_lease (
  name text not null,
  holder text not null,
  held_until timestamptz not null,
  constraint riverui_lease_pkey primary key (name),
  constraint riverui_lease_lengths check (
    char_length(name) between 1 and 100 and char_length(holder) between 1 and 200
  )
);

comment on table /* schema */riverui_lease is 'Work that one dashboard at a time does, kept by riverui';

create table /* schema */riverui_alert (
  incident text not null,
  destination text not null,
  sent text not null default '',
  wanted text not null default '',
  number integer not null default 0,
  tries integer not null default 0,
  at timestamptz not null default now(),
  constraint riverui_alert_pkey primary key (incident, destination),
  constraint riverui_alert_lengths check (
    char_length(destination) between 1 and 100 and char_length(sent) <= 100 and char_length(wanted) <= 100
  )
);

comment on table /* schema */riverui_alert is 'What was sent of each incident, and to where, kept by riverui';

create table /* schema */riverui_silence (
  id text not null,
  incident text not null default '',
  cause text not null default '',
  subject_is text not null default '',
  subject text not null default '',
  until timestamptz not null,
  made_at timestamptz not null default now(),
  made_by text not null default '',
  reason text not null default '',
  constraint riverui_silence_pkey primary key (id),
  constraint riverui_silence_lengths check (
    char_length(id) between 1 and 100 and char_length(incident) <= 100 and char_length(cause) <= 100
    and char_length(subject_is) <= 100 and char_length(subject) <= 200 and char_length(made_by) <= 200
    and char_length(reason) <= 1000
  )
);

create index riverui_silence_until on /* schema */riverui_silence using btree (until);

comment on table /* schema */riverui_silence is 'Incidents of which no alerts are sent, kept by riverui';
