-- Deploys and other moments that charts show.
create table /* schema */riverui_mark (
  at timestamptz not null,
  created_at timestamptz not null default now(),
  label text not null,
  release text not null default '',
  url text not null default '',
  username text not null default '',
  constraint riverui_mark_pkey primary key (at, label),
  constraint riverui_mark_at_a_minute check (extract(epoch from at)::numeric % 60 = 0),
  constraint riverui_mark_url_of_the_web check (url = '' or url ~ '^https?://'),
  constraint riverui_mark_lengths check (
    char_length(label) between 1 and 200 and char_length(release) <= 200 and char_length(url) <= 2000
    and char_length(username) <= 200
  )
);

comment on table /* schema */riverui_mark is 'Deploys and other moments that charts show, kept by riverui';
