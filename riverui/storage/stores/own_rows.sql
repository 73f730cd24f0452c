-- Whole rows of riverui's tables, to copy them to another database.

-- name: own_row_list
select to_jsonb(t)::text as row
from /* schema */riverui_/* table: */mark/* :table */ t
where true /* after */
order by /* key: */ at /* :key */
limit :limit::bigint;

-- part: own_row_after (own_row_list.after)
and (/* key: */ at /* :key */) > (
  select /* given: */ at /* :given */
  from jsonb_populate_record(null::/* schema */riverui_/* table: */mark/* :table */, :after::text::jsonb)
);

-- part: own_row_given (own_row_after.given)
/* name: */at/* :name */;

-- name: own_row_insert
-- Rows that are there already stay.
insert into /* schema */riverui_/* table: */mark/* :table */ (/* columns: */ at /* :columns */)
select /* given: */ at /* :given */
from jsonb_populate_recordset(null::/* schema */riverui_/* table: */mark/* :table */, :rows::text::jsonb)
on conflict do nothing;

-- part: own_row_value (own_row_insert.given)
/* name: */at/* :name */;

-- part: own_row_bytes (own_row_insert.given)
/* name: */at/* :name */;
