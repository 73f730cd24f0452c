"""Operations inside a SQLAlchemy transaction on a library other than psycopg, such as asyncpg."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from riverui.storage.interface.sql_blocks import Rows
from riverui.storage.options import Watch
from riverui.storage.postgres.errors import translate_foreign
from riverui.storage.postgres.executor import PostgresTransaction
from riverui.storage.postgres.limits import LIMITS, PostgresLimits
from riverui.storage.postgres.round_trips import Keep
from riverui.storage.postgres.statements import PostgresQueries

if TYPE_CHECKING:
    from riverui.storage.postgres.conninfo import Connection

_PARAMETER = re.compile(r"\$(\d+)::(?!text\b(?!\[))")


class SqlAlchemyConnection(Protocol):
    """The only method of SQLAlchemy's AsyncConnection that the executor uses."""

    async def exec_driver_sql(self, statement: str, parameters: Any = None) -> Any:
        """Send a statement in the form of the library underneath; return SQLAlchemy's result."""
        ...


class SqlAlchemyExecutor(PostgresTransaction):
    """All operations; a fast insert is an INSERT, as SQLAlchemy has no COPY."""

    copies = False

    def __init__(
        self,
        connection: SqlAlchemyConnection,
        queries: PostgresQueries,
        schema: str | None,
        watch: Watch | None = None,
        *,
        limits: PostgresLimits = LIMITS,
    ) -> None:
        # The methods below use SQLAlchemy's connection in place of the parent's psycopg one.
        super().__init__(cast("Connection", connection), queries, schema, watch, limits=limits)
        self._sqlalchemy = connection

    @property
    def backend_pid(self) -> int | None:
        """Return None: SQLAlchemy does not say."""
        return None

    @property
    def _in_transaction(self) -> bool:
        return True

    async def run(self, statement: str) -> None:
        """Run a statement without rows."""
        for part in statement.split(";"):
            await self._send(part)

    async def ask(
        self, name: str, text: str, values: Sequence[Any], keep: Keep = Keep.NOTHING
    ) -> Rows:
        """Run one statement in the form of the library underneath; return its rows."""
        # asyncpg takes the type of a parameter from its first cast and needs a Python value of
        # that type: a text has to arrive as text.
        bound = _PARAMETER.sub(
            lambda match: (
                f"${match[1]}::text::" if isinstance(values[int(match[1]) - 1], str) else match[0]
            ),
            text,
        )
        if self._watch:
            self._watch(name, bound, values)
        result = await self._send(bound, tuple(values))
        return Rows(map(tuple, result.fetchall()), result.keys()) if result.returns_rows else Rows()

    async def _send(self, text: str, values: tuple[Any, ...] = ()) -> Any:
        try:
            return await self._sqlalchemy.exec_driver_sql(text, values)
        except Exception as error:
            raise translate_foreign(error) from error
