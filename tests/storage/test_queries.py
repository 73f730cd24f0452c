"""The .sql files: readable in psql as they stand, filled and numbered as said."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from riverui.errors import ConfigError
from riverui.storage import sql as module
from riverui.storage.sql import Queries, check_schema, fill, number, qualify, read_blocks, rename
from tests.pro_tables import PRO_TABLES

FOLDER = Path(module.__file__).parent / "postgres"
# Parts of other statements, which mean nothing alone.
FRAGMENTS = re.compile(
    r"job_(at|term.*|bound_.*|cursor_(finalized|waiting|found|id|found_id)|candidates_.*|cutoff_terms|walk_nearest"
    r"|(minimal_|text_)?columns|column_names|finalized_at_once|select_.*|first_(due|old|stuck)|attempted_by|errors|metadata"
    r"|insert_by_key|insert_keyed|values?_at_path)"
    r"|job_cursor_state_id|queue_count_named|workflow_(active|inactive|signal_before)"
)
# What PREPARE does not take.
UTILITIES = {"job_insert_many_fast", "job_truncate"}


def test_blocks_and_comments() -> None:
    blocks = read_blocks(
        "-- a file\n-- name: one\nselect 1; -- why\n\n-- name: two\n-- more\nselect\n  'a';\n"
    )
    assert blocks == {"one": "select 1", "two": "select\n  'a'"}


def test_slots() -> None:
    assert fill("a /* x */ b", {"x": "1"}) == "a 1 b"
    assert fill("a /* x: */ default\n /* :x */ b /* x */", {"x": r"\1"}) == r"a \1 b \1"
    with pytest.raises(KeyError):
        fill("a", {"x": "1"})


def test_numbers() -> None:
    sql, names = number("select :a::text, :b, :a, x[1:2], 'river:log', /* s: */ 1 /* :s */ from t")
    assert " ".join(sql.split()) == "select $1::text, $2, $1, x[1:2], 'river:log', 1 from t"
    assert names == ("a", "b")


def test_renaming() -> None:
    assert (
        rename("x = :value::text and :values", "value", "term_1") == "x = :term_1::text and :values"
    )


def test_schema() -> None:
    assert qualify("/* schema */river_job", "a_B1") == '"a_B1".river_job'
    assert qualify("/* schema */river_job", None) == "river_job"
    assert check_schema("") is None
    assert check_schema("_x9") == "_x9"
    for bad in ('a"b', "a b", "1a", "a.b", "ä", "a-b", "a;", "x" * 47, "a\n"):
        with pytest.raises(ConfigError):
            check_schema(bad)


def test_no_block_has_two_homes() -> None:
    names = [name for file in FOLDER.glob("*/*.sql") for name in read_blocks(file.read_text())]
    assert len(names) == len(set(names))


def test_files_can_be_sent_to_a_database_of_any_encoding() -> None:
    for file in FOLDER.glob("*/*.sql"):
        assert all(sql.isascii() for sql in read_blocks(file.read_text()).values()), file


def test_every_parameter_has_a_type() -> None:
    """A pooler may hand a statement to a server that has not seen its like: nothing is left to be
    guessed.
    """
    for file in FOLDER.glob("*/*.sql"):
        for name, sql in read_blocks(file.read_text()).items():
            bare = re.findall(
                r"(?<![:\w]):([a-z]\w*)(?!\w|::)", re.sub(r"/\* :?\w+:? \*/", "", sql)
            )
            assert bare == [], name


def test_every_statement_is_complete_as_it_stands(database_url: str) -> None:
    """Each block can be prepared with nothing filled in, which is what psql would do with it."""
    blocks = Queries(sorted(FOLDER.glob("*/*.sql")), None)
    checked = 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(PRO_TABLES)
        for name in blocks.names:
            if FRAGMENTS.fullmatch(name) or name in UTILITIES:
                continue
            sql, _ = number(blocks.text(name))
            statement = sql.removeprefix("explain (format json) ")
            connection.execute(f"prepare {name} as {statement}".encode())
            checked += 1
    assert checked > 40


def test_only_sql_files_hold_sql() -> None:
    """Statements live in .sql files; Python only has the words of transactions."""
    root = FOLDER.parents[1]
    pattern = re.compile(
        r"\b(select|insert into|update|delete from)\b.*\b(from|values|set|where)\b", re.IGNORECASE
    )
    allowed = {"listener.py"}
    for file in root.rglob("*.py"):
        if "demo" in file.parts or file.name in allowed:
            continue
        code = re.sub(r'""".*?"""|#.*', "", file.read_text(), flags=re.DOTALL)
        strings = re.findall(r'b?"([^"\n]*)"', code)
        assert [s for s in strings if pattern.search(s)] == [], file
