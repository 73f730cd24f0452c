-- Whole rows of riverui's tables, to copy them to another database.

-- name: own_row_list
select *
from riverui_/* table: */mark/* :table */
where true /* after */
order by /* key: */ at /* :key */
limit :limit;

-- part: own_row_after (own_row_list.after)
and (/* key: */ at /* :key */) > (select /* given: */ :after ->> 'at' /* :given */);

-- part: own_row_given (own_row_after.given)
:after ->> '/* name: */at/* :name */';

-- name: own_row_insert
-- Rows that are there already stay.
insert into riverui_/* table: */mark/* :table */ (/* columns: */ at /* :columns */)
select /* given: */ r.value ->> 'at' /* :given */
from json_each(:rows) r
where true
on conflict do nothing;

-- part: own_row_value (own_row_insert.given)
r.value ->> '/* name: */at/* :name */';

-- part: own_row_bytes (own_row_insert.given)
riverui_bytes(r.value ->> '/* name: */at/* :name */');
