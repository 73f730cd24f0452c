"""Arrays as text are what Postgres reads from them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings, strategies as st

from riverui.errors import BadRequest
from riverui.storage.postgres import array_literals
from tests.scale import scaled

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
AWARE = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=-30))]))


@pytest.fixture(scope="module")
def connection(admin_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Any database will do."""
    with psycopg.connect(admin_url, autocommit=True) as opened:
        yield opened


def _read(connection: psycopg.Connection[Any], literal: str, kind: str) -> Any:
    (row,) = connection.execute(f"select (%s::text)::{kind}[]".encode(), [literal]).fetchall()
    return row[0]


@settings(max_examples=scaled(100, 200), deadline=None)
@given(st.lists(TEXTS))
def test_texts(connection: psycopg.Connection[Any], values: list[str]) -> None:
    assert _read(connection, array_literals.texts(values), "text") == values


@settings(max_examples=scaled(100, 200), deadline=None)
@given(st.lists(st.none() | TEXTS))
def test_optional_texts(connection: psycopg.Connection[Any], values: list[str | None]) -> None:
    assert _read(connection, array_literals.optional_texts(values), "text") == values


@settings(max_examples=scaled(50, 200), deadline=None)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_numbers(connection: psycopg.Connection[Any], values: list[int | None]) -> None:
    assert _read(connection, array_literals.numbers(values), "bigint") == values


@settings(max_examples=scaled(50, 200), deadline=None)
@given(st.lists(st.none() | AWARE))
def test_instants(connection: psycopg.Connection[Any], values: list[datetime | None]) -> None:
    connection.execute("set timezone = 'UTC'")
    try:
        assert _read(connection, array_literals.instants(values), "timestamptz") == values
    except psycopg.DataError:
        # The first and the last hours, in other zones, lie beyond the calendar.
        assert any(value and value.year in (1, 9999) for value in values)


@settings(max_examples=scaled(50, 200), deadline=None)
@given(st.lists(st.none() | st.binary()))
def test_keys(connection: psycopg.Connection[Any], values: list[bytes | None]) -> None:
    assert _read(connection, array_literals.keys(values), "bytea") == values


@settings(max_examples=scaled(100, 200), deadline=None)
@given(st.lists(TEXTS, min_size=1))
def test_copy_texts(connection: psycopg.Connection[Any], values: list[str]) -> None:
    connection.execute("create temp table if not exists copied (id bigserial, t text)")
    connection.execute("truncate copied")
    with connection.cursor().copy("copy copied (t) from stdin") as copy:
        copy.write("".join(f"{text}\n" for text in array_literals.copy_texts(values)))
    assert [row[0] for row in connection.execute("select t from copied order by id")] == values


@pytest.mark.parametrize("bad", ["\0", "a\0", "\0\0", "\ud800", "ü\udfff", 'x"\0","'])
def test_what_postgres_cannot_store(bad: str) -> None:
    for written in (array_literals.texts, array_literals.optional_texts, array_literals.copy_texts):
        with pytest.raises(BadRequest):
            written(["fine", bad, "fine"])
    with pytest.raises(BadRequest):
        array_literals.check_text(bad)
