"""Rows that no client of River would write, but that its tables can hold.

This is one corpus for pages, API and engine. Each is a row of `river_job` in which some columns are
odd and the rest is as usual. `insert_odd_rows` writes all of them in the states asked for; whatever
reads `river_job` must survive them all at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection, DataError, IntegrityError, OperationalError

from riverui.features.error_groups.domain.fingerprints import error_signature

STATES = (
    "available",
    "cancelled",
    "completed",
    "discarded",
    "pending",
    "retryable",
    "running",
    "scheduled",
)
DEEP = 5_000
"""Levels of nesting: more than Python's JSON reader takes, fewer than Postgres does."""
DIGITS = 5_000
"""More than Python turns into an int."""
MANY = 300_000
"""Elements of an array: a row of some 5 MB, more than any answer may have."""

_DEEP = f"(repeat('[', {DEEP}) || repeat(']', {DEEP}))::jsonb"
_NUMBER = f"repeat('9', {DIGITS})::jsonb"
_LONG = "repeat('error ', 1000000)"
_BASE = {
    "state": "$state::river_job_state",
    "kind": "'odd'",
    "queue": "'default'",
    "args": "'{}'::jsonb",
    "metadata": "'{}'::jsonb",
    "tags": "array[]::varchar[]",
    "attempt": "1",
    "max_attempts": "25",
    "attempted_at": "now() - interval '3 hours'",
    "attempted_by": "array['client']",
    "errors": "array[]::jsonb[]",
    "created_at": "now() - interval '4 hours'",
    "scheduled_at": "now() - interval '3 hours'",
    "finalized_at": (
        "case when $state in ('cancelled', 'completed', 'discarded') then now() - interval '2"
        " hours' end"
    ),
}


@dataclass(frozen=True, slots=True)
class OddRow:
    """A row: its name, SQL expressions of the odd columns, and whether it is megabytes large."""

    name: str
    columns: Mapping[str, str]
    large: bool = field(default=False, kw_only=True)


def _many(text: str, kind: str) -> str:
    return f"(select array_agg({text} || n) from generate_series(1, {MANY}) n)::{kind}[]"


def _error(error: str) -> str:
    return f"jsonb_build_object('at', now(), 'attempt', 1, 'error', {error}, 'trace', '')"


ODD_ROWS = (
    # Arrays
    OddRow("many tags", {"tags": _many("'tag_'", "varchar")}, large=True),
    OddRow("many workers", {"attempted_by": _many("'client_'", "text")}, large=True),
    OddRow(
        "tags in two dimensions", {"tags": "array[array['a', 'b'], array['c', 'd']]::varchar[]"}
    ),
    OddRow("tags with nulls", {"tags": "array[null, 'a', null]::varchar[]"}),
    OddRow("a tag as long as there is", {"tags": "array[repeat('é', 255)]::varchar[]"}),
    OddRow("an empty tag", {"tags": "array['']::varchar[]"}),
    OddRow(
        "workers in two dimensions", {"attempted_by": "array[array['a', 'b'], array['c', 'd']]"}
    ),
    OddRow("workers with nulls", {"attempted_by": "array[null, 'a', null]::text[]"}),
    OddRow("workers that count from five", {"attempted_by": "'[5:6]={a,b}'::text[]"}),
    OddRow("no array of workers", {"attempted_by": "null"}),
    # Attempts
    OddRow("the last attempt of smallint", {"attempt": "32767", "max_attempts": "32767"}),
    OddRow("more attempts than allowed", {"attempt": "32767", "max_attempts": "1"}),
    OddRow("no attempt, one allowed", {"attempt": "0", "max_attempts": "1"}),
    OddRow("a negative attempt", {"attempt": "-32768"}),
    # Errors
    OddRow("no array of errors", {"errors": "null"}),
    OddRow("errors that are null", {"errors": "array[null, 'null'::jsonb]::jsonb[]"}),
    OddRow("errors that are scalars", {"errors": "array['1'::jsonb, 'true', '\"text\"', '[]']"}),
    OddRow(
        "errors in two dimensions", {"errors": "array[array['{}', '{}'], array['1', '2']]::jsonb[]"}
    ),
    OddRow("an error nested deep", {"errors": f"array[{_error(_DEEP)}, {_DEEP}]"}),
    OddRow("an error of many digits", {"errors": f"array[{_error(_NUMBER)}, {_NUMBER}]"}),
    OddRow(
        "an error of odd fields",
        {"errors": """array['{"at": [], "attempt": 1e400, "error": {}, "trace": 7}'::jsonb]"""},
    ),
    OddRow(
        "an attempt of many digits", {"errors": f"array[jsonb_build_object('attempt', {_NUMBER})]"}
    ),
    OddRow(
        "many errors",
        {"errors": f"(select array_agg({_error('md5(n::text)')}) from generate_series(1, 5000) n)"},
        large=True,
    ),
    OddRow("a long error", {"errors": f"array[{_error(_LONG)}]"}, large=True),
    # Metadata
    OddRow("metadata that is null", {"metadata": "'null'::jsonb"}),
    OddRow("metadata that is a number", {"metadata": "'7'::jsonb"}),
    OddRow("metadata that is a text", {"metadata": "'\"cancel_attempted_at\"'::jsonb"}),
    OddRow(
        "metadata that is an array", {"metadata": '\'["cancel_attempted_at", "output"]\'::jsonb'}
    ),
    OddRow("metadata nested deep", {"metadata": f"jsonb_build_object('deep', {_DEEP})"}),
    OddRow("metadata of many digits", {"metadata": f"jsonb_build_object('snoozes', {_NUMBER})"}),
    OddRow(
        "a deep cancellation",
        {
            "metadata": (
                f"jsonb_build_object('cancel_attempted_at', {_DEEP}, 'river:rescue_count',"
                f" {_NUMBER})"
            )
        },
    ),
    OddRow(
        "metadata of River's keys with odd values",
        {
            "metadata": (
                """'{"river:log": {"attempt": 1}, "snoozes": "many", "cancel_attempted_at": 7,
              "river:rescue_count": -1, "unique_key_conflict": [], "river:resumable_step":
              9}'::jsonb
                """
            )
        },
    ),
    OddRow(
        "logs of odd attempts",
        {
            "metadata": (
                """'{"river:log": [{"attempt": null, "log": "null"},
              {"attempt": -1, "log": "minus"},
              {"attempt": "two", "log": "two"}, {"attempt": 1.5, "log": 7}, {"attempt": 1e30,
              "log": "far"},
              {"log": "none"}, 5, null]}'::jsonb
                """
            )
        },
    ),
    OddRow(
        "a long log",
        {
            "metadata": (
                "jsonb_build_object('river:log', jsonb_build_array(jsonb_build_object('attempt', 1,"
                " 'log', repeat(E'INFO a line of a log\\n', 200000))))"
            )
        },
        large=True,
    ),
    OddRow(
        "logs of many attempts",
        {
            "metadata": (
                "jsonb_build_object('river:log', (select jsonb_agg(jsonb_build_object('attempt', n,"
                " 'log', repeat(E'INFO line\\n', 20))) from generate_series(1, 5000) n))"
            )
        },
        large=True,
    ),
    OddRow("output nested deep", {"metadata": f"jsonb_build_object('output', {_DEEP})"}),
    OddRow(
        "a large output",
        {"metadata": "jsonb_build_object('output', repeat('x', 5000000))"},
        large=True,
    ),
    # Args
    OddRow("args that are null", {"args": "'null'::jsonb"}),
    OddRow("args that are a text", {"args": "'\"text\"'::jsonb"}),
    OddRow("args that are an array", {"args": "'[1, 2]'::jsonb"}),
    OddRow("args nested deep", {"args": f"jsonb_build_object('deep', {_DEEP})"}),
    OddRow("args of many digits", {"args": f"jsonb_build_object('number', {_NUMBER})"}),
    OddRow(
        "args of many keys",
        {"args": "(select jsonb_object_agg('key_' || n, n) from generate_series(1, 50000) n)"},
        large=True,
    ),
    OddRow(
        "args of one long text",
        {"args": "jsonb_build_object('text', repeat('x', 5000000))"},
        large=True,
    ),
    OddRow("args of a long key", {"args": "jsonb_build_object(repeat('k', 100000), 1)"}),
    OddRow(
        "args with a lone surrogate's look",
        {"args": "jsonb_build_object('text', E'\\\\ud800 \\u202e\\x01')"},
    ),
    # Times
    OddRow(
        "times that never come",
        {"attempted_at": "'infinity'", "created_at": "'infinity'", "scheduled_at": "'infinity'"},
    ),
    OddRow(
        "times that were always",
        {"attempted_at": "'-infinity'", "created_at": "'-infinity'", "scheduled_at": "'-infinity'"},
    ),
    OddRow(
        "times before Christ",
        {
            "attempted_at": "'0044-03-15 BC'",
            "created_at": "'4713-01-01 BC'",
            "scheduled_at": "'0044-03-15 BC'",
        },
    ),
    OddRow(
        "times beyond the calendar",
        {"created_at": "'294276-12-31'", "attempted_at": "'10000-01-01'"},
    ),
    OddRow("no time of an attempt", {"attempted_at": "null"}),
    # Names
    OddRow("a kind of control characters", {"kind": "E'a\\x01\\x1b[31m\\n\\u202eb'"}),
    OddRow("a queue of control characters", {"queue": "E'q\\x01\\n/../\\u2028'"}),
    OddRow("a queue called every queue", {"queue": "'*'"}),
    OddRow("names as long as they get", {"kind": "repeat('漢', 127)", "queue": "repeat('é', 127)"}),
    # Uniqueness
    OddRow(
        "a unique key of no states",
        {"unique_key": "'\\x00ff'::bytea", "unique_states": "b'00000000'"},
    ),
    OddRow("unique states without a key", {"unique_states": "b'11111111'"}),
)


async def insert_odd_rows(
    connection: AsyncConnection[Any],
    states: Collection[str] = STATES,
    *,
    large_in: Collection[str] = ("running",),
    **columns: str,
) -> dict[tuple[str, str], int]:
    """Write the whole corpus once in each of `states`; ids by (name of the row, state).

    The large rows are written only in those states that are also in `large_in`. `columns` are SQL
    expressions that all rows share where the row has none of its own: `kind="'task'"`.
    """
    found: dict[tuple[str, str], int] = {}
    for state in states:
        for row in ODD_ROWS:
            if row.large and state not in large_in:
                continue
            found[row.name, state] = await insert_odd_row(connection, row, state, **columns)
    return found


async def insert_odd_row(
    connection: AsyncConnection[Any], row: OddRow, state: str = "available", **columns: str
) -> int:
    """Write one row of the corpus; its id."""
    expressions = {**_BASE, **columns, **row.columns}
    values = ", ".join(text.replace("$state", f"'{state}'") for text in expressions.values())
    statement = f"insert into river_job ({', '.join(expressions)}) select {values} returning id"
    found = await (await connection.execute(statement.encode())).fetchone()
    assert found is not None
    return int(found["id"] if isinstance(found, dict) else found[0])


_MEGABYTES = "repeat('large ', 350000)"
_KEYS = (
    "attempt", "by_args", "by_kind", "canary", "concurrency", "default", "error", "global_limit",
    "inputs", "local_limit", "matched", "odd", "outcomes", "partition", "passed", "pending",
    "per_minute", "queue", "rate_limit", "signals", "stop_failing", "terms", "timers", "user",
    "workflow_id",
)  # fmt: skip
"""Keys of objects in riverui's own tables, and some that are nowhere."""
_JSONS = ("3", "null", "[]", "[1, 2, 3]", '[1, "x", {}]', '{"a": []}', '"x"', "1e400")


def _objects(value: str) -> str:
    """Return an expression of an object that has one value, itself an expression, at every key."""
    return f"(select jsonb_object_agg(k, {value}) from unnest(array{list(_KEYS)}) k)"


_EXTREMES: Mapping[str, Collection[str]] = {
    "bigint": ("9223372036854775807", "-9223372036854775808", "0"),
    "bit": ("b'00000000'", "b'11111111'"),
    "boolean": ("true", "false"),
    "bytea": (r"'\xff00'::bytea", r"'\x0c0102030405060708090a0b0c0d0e0f'::bytea", "''::bytea"),
    "double precision": ("'nan'", "'infinity'", "-1", "1e308", "1e-308"),
    "integer": ("2147483647", "-2147483648", "0"),
    "interval": ("interval '1000 years'", "interval '170000000 years'", "interval '-1 day'"),
    "jsonb": (
        *("""'null'::jsonb""", "'7'::jsonb", "'[[1]]'::jsonb", """'"text"'::jsonb"""),
        *(_objects(f"'{json}'::jsonb") for json in _JSONS),
        f"jsonb_build_object('odd', {_DEEP}, 'default', {_DEEP}, 'pending', {_DEEP})",
        f"jsonb_build_object('odd', {_NUMBER}, 'default', {_NUMBER}, 'pending', {_NUMBER})",
        "(select jsonb_object_agg('key_' || n, n) from generate_series(1, 4000) n)",
        f"jsonb_build_object('odd', {_MEGABYTES})",
    ),
    "jsonb[]": ("array[]::jsonb[]", "array[null, '7', '[]', '{}']::jsonb[]"),
    "smallint": ("32767", "-32768"),
    "text": (_MEGABYTES, "repeat('漢', 127)", r"E'a\u202e\x1b[31m\n<b>'", "''", "'infinity'"),
    "text[]": ("array[]::text[]", r"array[null, '', E'\u202e']", "array[array['a'], array['b']]"),
    "timestamp with time zone": ("'infinity'", "'-infinity'", "'294276-12-31'", "'4713-01-01 BC'"),
}
"""Odd values of each type of column, as expressions of SQL; null where a column allows it is one of
them as well.
"""
_USUAL: Mapping[str, str] = {
    "bigint": "1",
    "integer": "60",
    "interval": "interval '5 seconds'",
    "jsonb": "'{}'::jsonb",
    "smallint": "1",
    "text": "'usual'",
    "text[]": "array[]::text[]",
    "timestamp with time zone": "date_trunc('minute', now()) - $n * interval '1 minute'",
}
"""What a column that needs a value has in rows of which another one is odd, by its type. `$n` is
another number for each row.
"""
_USUAL_NAMED: Mapping[str, str] = {
    "allowed": "'jobs.retry'",
    "client_id": "'usual$n'",
    "fingerprint": "'$fingerprint'",
    "id": "'usual$n'",
    "job_id": "$n",
    "key": """'{"value": "usual$n"}'""",
    "kind": "'usual'",
    "label": "'usual$n'",
    "level": "'warn'",
    "name": "'usual$n'",
    "query": "'kind:none'",
    "queue": "'default'",
    "seq_key": "'usual$n'",
    "sort": "'time'",
    "source": "''",
    "task": "'usual$n'",
    "state": "'discarded'",
    "total_kind": "'exact'",
    "verb": "'retry'",
    "workflow_id": "'usual'",
}
"""The same by its name, which goes before."""
_BESIDE: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("riverui_client", "rescued_at"): {"declared_dead_at": "now()"},
    ("riverui_operation", "ended_at"): {"status": "'done'"},
    ("riverui_error_group", "decided_at"): {"state": "'resolved'"},
}
"""What else a row has where one column is odd, for the table to take it."""
_MEANT: Mapping[str, Collection[Mapping[str, str]]] = {
    "riverui_rollup": (
        {"queue": "''", "kind": "''"},
        {"kind": "''"},
        {},
        {"source": "'client'"},
    )
}
"""Rows of one table that mean different things, each with its own usual values."""


@dataclass(frozen=True, slots=True)
class OwnRow:
    """A row of one of riverui's own tables of which one column is odd, all of them, or none."""

    table: str
    column: str
    """The odd column; empty where none is, `*` where all are."""
    value: str
    """Its expression."""
    number: int
    key: Mapping[str, str]
    """The primary key, as text."""


async def insert_odd_own_rows(connection: AsyncConnection[Any]) -> list[OwnRow]:
    """Write rows into every table that begins with `riverui_`: one as usual, one with each odd
    value that a column takes, and some that are odd in every column that is no key.
    """
    found = await connection.execute(
        """
        select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type,
          not a.attnotnull as nullable, a.atthasdef as has_default,
          a.attnum = any(i.indkey) as in_key
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
          and not a.attisdropped and a.attgenerated = '' and a.attidentity <> 'a'
        join pg_index i on i.indrelid = c.oid and i.indisprimary
        where c.relkind = 'r' and c.relname like 'riverui%' order by c.relname, a.attnum
        """
    )
    tables: dict[str, list[Any]] = {}
    for column in await found.fetchall():
        tables.setdefault(column["table"], []).append(column)
    rows: list[OwnRow] = []

    async def insert(table: str, odd: Mapping[str, str], column: str = "") -> bool:
        """Insert a row where the table takes it; return whether it does."""
        number, columns = len(rows) + 1, tables[table]
        row = {
            each["name"]: _usual(each, number)
            for each in columns
            if each["in_key"] or not (each["has_default"] or each["nullable"])
        }
        row |= odd
        keys = ", ".join(f"{each['name']}::text" for each in columns if each["in_key"])
        statement = f"insert into {table} ({', '.join(row)}) values ({', '.join(row.values())})"
        try:
            answer = await connection.execute(f"{statement} returning {keys}".encode())
        except (DataError, IntegrityError, OperationalError):
            return False
        (key,) = await answer.fetchall()
        rows.append(OwnRow(table, column, row.get(column, ""), number, key))
        return True

    for table, columns in tables.items():
        for meant in _MEANT.get(table, [{}]):
            assert await insert(table, meant), f"what does a usual row of {table} need?"
            taken: dict[str, list[str]] = {}
            for column in columns:
                name = column["name"]
                beside = {**meant, **_BESIDE.get((table, name), {})}
                for value in (*_EXTREMES[column["type"]], *(["null"] * column["nullable"])):
                    if await insert(table, {**beside, name: value}, name) and not column["in_key"]:
                        taken.setdefault(name, []).append(value)
            for place in range(max(map(len, taken.values()), default=0)):
                odd = {name: values[place % len(values)] for name, values in taken.items()}
                await insert(table, {**meant, **odd}, "*")
    return rows


def _usual(column: Any, number: int) -> str:
    """Return the expression of a column's usual value in the row of that number."""
    text = _USUAL_NAMED.get(column["name"])
    if text is None or (column["type"] == "bigint" and column["name"] == "id"):
        text = "$n" if column["in_key"] and column["type"] == "bigint" else _USUAL[column["type"]]
    return text.replace("$n", str(number)).replace("$fingerprint", fingerprint(number))


def odd_error(number: int) -> str:
    """Return an error that is alone in its group: letters, as digits are not told apart."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number)) + "Error: it broke"


def fingerprint(number: int) -> str:
    """Return the group of such an error."""
    return error_signature(odd_error(number)).fingerprint
