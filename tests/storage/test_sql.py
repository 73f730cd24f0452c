"""The .sql files: they run in psql unchanged, with slots filled and parameters numbered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from riverui.errors import ConfigError
from riverui.storage.interface import sql_blocks as module
from riverui.storage.interface.sql_blocks import (
    EMPTY,
    Block,
    Fragment,
    Queries,
    blocks_of,
    join,
    number,
    qualify,
    read_blocks,
    word,
)
from riverui.storage.options import check_schema
from tests.own_tables import OWN_TABLES
from tests.pro_tables import PRO_TABLES

PACKAGE = Path(module.__file__).parents[2]
FILES = sorted(
    file
    for folder in ("storage/postgres", "storage/stores", "features")
    for file in PACKAGE.glob(f"{folder}/*/*.sql")
    if not file.match("*.sqlite.sql")
)


@pytest.fixture
def queries(tmp_path: Path) -> Queries:
    """Return a few blocks."""
    file = tmp_path / "few.sql"
    file.write_text(
        "-- name: b\nselect /* a */ x /* c */ from t where /* d: */ id = :id /* :d */;\n"
        "-- name: nested\norder by /* at: */ j.at /* desc */, /* :at */ j.id /* desc */;\n"
        "-- part: term (b.d)\n/* column: */ id /* :column */ = :value;\n"
        "-- part: both (b.d)\n/* first */ or /* second */ or :value;\n"
    )
    return Queries([file], None)


def rendered(queries: Queries, fragment: Fragment) -> str:
    return " ".join(queries.render(fragment)[0].split())


def test_blocks_and_comments() -> None:
    blocks = read_blocks(
        "-- a file\n-- name: one\nselect 1; -- why\n\n-- name: two\n-- more\nselect\n  'a';\n"
    )
    assert blocks == {"one": "select 1", "two": "select\n  'a'"}


def test_a_part_says_where_it_fits() -> None:
    (block,) = blocks_of("-- part: one (two.columns)\na, b;\n")
    assert block == Block("one", "a, b", "two", "columns")


def test_what_is_kept_is_known_by_its_slot(queries: Queries) -> None:
    nine = word("nine")
    for slot, expected in (("a", "nine x"), ("c", "x nine"), ("a", "nine x")):
        fragment = Fragment("b", {"id": 1}, **{slot: nine})
        assert rendered(queries, fragment) == f"select {expected} from t where id = $1"
    both = {"a": word("nine"), "c": word("ten")}
    for slots in (both, dict(reversed(both.items()))):
        fragment = Fragment("b", {"id": 1}, **slots)
        assert rendered(queries, fragment) == "select nine x ten from t where id = $1"
    assert rendered(queries, Fragment("b", {"id": 1})) == "select x from t where id = $1"


def test_what_is_kept_does_not_keep_its_values(queries: Queries) -> None:
    assert queries.render(Fragment("b", {"id": 1}))[1] == [1]
    assert queries.render(Fragment("b", {"id": 2}))[1] == [2]
    for value in (3, 4):
        assert queries.render(Fragment("b", d=Fragment("term", {"value": value})))[1] == [value]


def test_texts_of_many_shapes_do_not_get_mixed_up(queries: Queries) -> None:
    texts = {
        size: queries.render(Fragment((*("x",) * size, Fragment("term", {"value": size}))))
        for size in range(1, 1_000)
    }
    for size, (text, values) in texts.items():
        assert "".join(text.split()) == f"{'x' * size}id=$1"
        assert values == [size]


def test_fragments_have_their_own_values_under_the_same_name(queries: Queries) -> None:
    first, second = (Fragment("term", {"value": value}) for value in (1, 2))
    both = Fragment("both", {"value": 3}, first=first, second=second)
    text, values = queries.render(Fragment("b", {"value": 4}, d=both))
    assert " ".join(text.split()) == "select x from t where id = $1 or id = $2 or $3"
    assert values == [1, 2, 3]
    # One fragment in two places has one value.
    text, values = queries.render(Fragment("both", {"value": 3}, first=first, second=first))
    assert " ".join(text.split()) == "id = $1 or id = $1 or $2"
    assert values == [1, 3]
    # And two have two, though all else is the same.
    text, values = queries.render(Fragment("both", {"value": 3}, first=first, second=second))
    assert " ".join(text.split()) == "id = $1 or id = $2 or $3"
    assert values == [1, 2, 3]
    # What it does not have is that of the fragment around it.
    assert queries.render(Fragment("b", {"value": 5}, d=Fragment("term")))[1] == [5]


def test_slots_within_the_default_of_another(queries: Queries) -> None:
    desc = word("desc")
    assert rendered(queries, Fragment("nested", desc=desc)) == "order by j.at desc, j.id desc"
    assert rendered(queries, Fragment("nested", at=EMPTY, desc=desc)) == "order by j.id desc"


def test_a_slot_that_is_not_there_is_an_error(queries: Queries) -> None:
    with pytest.raises(KeyError, match="b has no slot e"):
        queries.render(Fragment("b", {"id": 1}, e=EMPTY))
    with pytest.raises(KeyError, match="id"):
        queries.render(Fragment("b"))
    for broken in ("a /* x: */ b", "a /* :x */", "/* x: */ /* y: */ /* :x */ /* :y */"):
        with pytest.raises(ValueError, match="slot"):
            number(broken)


def test_the_columns_of_a_statement_are_asked_for_once(queries: Queries) -> None:
    asked: list[str] = []

    def columns(text: str) -> tuple[str, ...]:
        def read() -> tuple[str, ...]:
            asked.append(text)
            return (text.upper(),)

        return queries.columns(text, read)

    assert [columns("a"), columns("b"), columns("a")] == [("A",), ("B",), ("A",)]
    assert asked == ["a", "b"]
    # Filters make texts without end: what is remembered does not grow with them.
    for n in range(2_000):
        assert columns(f"select {n}") == (f"SELECT {n}",)
    assert columns("a") == ("A",)
    assert asked.count("a") == 2


def test_only_bare_words_are_taken() -> None:
    for bad in ("", "1", "a b", "a;", "a--", "'a'", "a.b", "<>", "==", ";", "/*"):
        with pytest.raises(ValueError, match="not a word"):
            word(bad)
    for bad in ("; ", "'", "--", ")", "/*"):
        with pytest.raises(ValueError, match="not a separator"):
            join([EMPTY, EMPTY], bad)


def test_a_row_of_fragments(queries: Queries) -> None:
    row = [Fragment("term", {"value": value}) for value in (1, 2)]
    for separator in (" ", ", ", " union all "):
        text, values = queries.render(join(row, separator))
        assert " ".join(text.split()) == f"id = $1{separator}id = $2"
        assert values == [1, 2]


def test_text_that_looks_like_sql_stays_a_value(queries: Queries) -> None:
    """What a person gives has no way into the text, whatever slots and parameters it names."""
    bad = "x'; drop table t; -- :id /* a */ /* d: */ $1"
    text, values = queries.render(Fragment("b", a=EMPTY, d=Fragment("term", {"value": bad})))
    assert " ".join(text.split()) == "select x from t where id = $1"
    assert values == [bad]


def test_numbers() -> None:
    sql, names = number("select :a::text, :b, :a, x[1:2], 'river:log', /* s: */ 1 /* :s */ from t")
    assert " ".join(sql.split()) == "select $1::text, $2, $1, x[1:2], 'river:log', 1 from t"
    assert names == ("a", "b")


def test_schema() -> None:
    assert qualify("/* schema */river_job", "a_B1") == '"a_B1".river_job'
    assert qualify("/* schema */river_job", None) == "river_job"
    assert check_schema("") is None
    assert check_schema("_x9") == "_x9"
    for bad in ('a"b', "a b", "1a", "a.b", "ä", "a-b", "a;", "x" * 47, "a\n"):
        with pytest.raises(ConfigError):
            check_schema(bad)


def test_no_block_has_two_homes() -> None:
    names = [name for file in FILES for name in read_blocks(file.read_text())]
    assert len(names) == len(set(names))


def test_files_can_be_sent_to_a_database_of_any_encoding() -> None:
    for file in FILES:
        assert all(sql.isascii() for sql in read_blocks(file.read_text()).values()), file


def test_every_parameter_has_a_type() -> None:
    """A pooler may hand a statement to a server that has not seen its like: nothing is left to be
    guessed.
    """
    for file in FILES:
        for name, sql in read_blocks(file.read_text()).items():
            bare = re.findall(
                r"(?<![:\w]):([a-z]\w*)(?!\w|::)", re.sub(r"/\* :?\w+:? \*/", "", sql)
            )
            assert bare == [], name


def every_block() -> Mapping[str, Block]:
    return {
        block.name: block for file in FILES for block in blocks_of(qualify(file.read_text(), None))
    }


def in_place() -> Iterator[tuple[str, str]]:
    """Each block as a whole statement, a part in the slot that it names."""
    blocks = every_block()
    queries = Queries(FILES, None)
    names = {name for block in blocks.values() for name in number(block.sql)[1]}
    for name, block in blocks.items():
        slots: dict[str, Fragment] = {}
        while block.host is not None and block.slot is not None:
            slots = {block.slot: Fragment(block.name, **slots)}
            block = blocks[block.host]
        yield name, queries.render(Fragment(block.name, dict.fromkeys(names), **slots))[0]


def test_every_statement_is_complete(database_url: str) -> None:
    """The server takes each block with nothing filled in, as psql would send it, and each part in
    the place that it names; every column that comes back has a name of its own.
    """
    checked = 0
    with psycopg.connect(database_url) as connection:
        connection.execute(PRO_TABLES)
        connection.execute(OWN_TABLES)
        # An extension, which few servers have.
        connection.execute(
            "create temporary view pg_stat_statements as select 0::oid as dbid, ''::text as query,"
            " 0::bigint as rows, 0.0::float8 as total_exec_time, 0::numeric as wal_bytes"
        )
        server = connection.pgconn
        for name, text in in_place():
            checked += 1
            # What PREPARE does not take is run.
            if text.startswith("copy "):
                with connection.cursor().copy(text.encode()):
                    continue
            if text.startswith("truncate "):
                connection.execute(text.encode())
                continue
            result = server.prepare(b"", text.removeprefix("explain (format json) ").encode())
            assert result.error_message == b"", (name, text, result.error_message)
            described = server.describe_prepared(b"")
            columns = [(described.fname(n) or b"").decode() for n in range(described.nfields)]
            assert len(set(columns)) == len(columns), (name, columns)
            assert [column for column in columns if not column.isidentifier()] == [], name
        connection.rollback()
    assert checked == len(every_block()) > 100


def test_only_sql_files_hold_sql() -> None:
    """Statements live in .sql files; Python only has the words of transactions. SQLite's driver has
    its short ones in its operations.
    """
    pattern = re.compile(
        r"\b(select|insert into|update|delete from)\b.*\b(from|values|set|where)\b", re.IGNORECASE
    )
    allowed = {"listener.py"}
    for file in PACKAGE.rglob("*.py"):
        if {"demo", "sqlite"}.intersection(file.parts) or file.name in allowed:
            continue
        code = re.sub(r'""".*?"""|#.*', "", file.read_text(), flags=re.DOTALL)
        strings = re.findall(r'b?"([^"\n]*)"', code)
        assert [s for s in strings if pattern.search(s)] == [], file
