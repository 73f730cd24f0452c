"""What the program is about: observations, kept in scopes. Each change publishes its scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from psycopg import Connection as PsycopgConnection

Connection: TypeAlias = PsycopgConnection[Any]
Publish: TypeAlias = Callable[[Connection, str], object]
"""Say, in the transaction of a change, that this scope has changed."""


def create_tables(connection: Connection) -> None:
    """Make the tables that are missing, and commit."""
    with connection.transaction():
        connection.execute(Path(__file__).with_name("schema.sql").read_bytes())


class Observations:
    """Save and delete observations, each in a transaction of the caller's."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish

    def save(self, connection: Connection, scope: str, body: str) -> int:
        """Add an observation; return its id."""
        row = connection.execute(
            "insert into observations (scope, body) values (%s, %s) returning id", [scope, body]
        ).fetchone()
        assert row is not None
        self._publish(connection, scope)
        return int(row[0])

    def delete(self, connection: Connection, id: int) -> None:
        """Remove an observation; one that is not there makes no difference."""
        row = connection.execute(
            "delete from observations where id = %s returning scope", [id]
        ).fetchone()
        if row is not None:
            self._publish(connection, row[0])

    def merge(self, connection: Connection, kept: int, others: Sequence[int]) -> None:
        """Append the texts of others of its scope to one observation, and remove them."""
        row = connection.execute(
            """
            with removed as (
                delete from observations
                where id = any(%(others)s) and id <> %(kept)s
                    and scope = (select scope from observations where id = %(kept)s)
                returning id, body
            ), texts as (
                select string_agg(body, ' / ' order by id) as body from removed
            )
            update observations as o
            set body = concat_ws(' / ', o.body, texts.body)
            from texts
            where o.id = %(kept)s
            returning o.scope
            """,
            {"kept": kept, "others": list(others)},
        ).fetchone()
        if row is not None:
            self._publish(connection, row[0])


def bodies(connection: Connection, scope: str) -> list[str]:
    """Return all texts of a scope, oldest first."""
    found = connection.execute(
        "select body from observations where scope = %s order by id", [scope]
    ).fetchall()
    return [row[0] for row in found]
