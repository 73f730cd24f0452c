"""Operations inside a SQLAlchemy transaction on a driver other than psycopg."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from riverui.storage.postgres.errors import translate_foreign
from riverui.storage.postgres.executor import PostgresExecutor
from riverui.storage.postgres.statements import Row, Watch
from riverui.storage.sql import Queries

_PARAMETER = re.compile(r"\$(\d+)::(?!text\b(?!\[))")


class AlchemyConnection(Protocol):
    """What is used of SQLAlchemy's AsyncConnection."""

    async def exec_driver_sql(self, statement: str, parameters: Any = None) -> Any:
        """Sends a statement in the driver's own words."""
        ...


class AlchemyExecutor(PostgresExecutor):
    """All operations, but COPY, which is an INSERT here."""

    _copies = False

    def __init__(
        self,
        connection: AlchemyConnection,
        queries: Queries,
        schema: str | None,
        watch: Watch | None = None,
    ) -> None:
        self._alchemy = connection
        self._queries = queries
        self._schema = schema
        self._watch = watch
        self._prepares = False

    @property
    def _in_transaction(self) -> bool:
        return True

    async def _run(self, statement: str) -> None:
        for part in statement.split(";"):
            await self._send(part)

    async def _ask(
        self, name: str, text: str, values: Sequence[Any], prepare: bool = False
    ) -> list[Row]:
        # asyncpg takes the type of a parameter from its first cast and wants a Python value of
        # that type: a text has to arrive as one.
        bound = _PARAMETER.sub(
            lambda match: (
                f"${match[1]}::text::" if isinstance(values[int(match[1]) - 1], str) else match[0]
            ),
            text,
        )
        if self._watch:
            self._watch(name, bound, values)
        result = await self._send(bound, tuple(values))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    async def _send(self, text: str, values: tuple[Any, ...] = ()) -> Any:
        try:
            return await self._alchemy.exec_driver_sql(text, values)
        except Exception as error:
            raise translate_foreign(error) from error
