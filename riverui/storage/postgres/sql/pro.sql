-- River Pro's tables, where there are any.

-- name: pro_tables
select t.name from unnest(:tables::text::text[]) as t (name) where to_regclass('/* schema */' || t.name) is not null;
