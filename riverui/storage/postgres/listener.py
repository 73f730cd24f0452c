"""Hears River's notifications on a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from riverui.errors import DatabaseUnavailable
from riverui.storage.postgres.failures import translate
from riverui.storage.postgres.pool import Connection


class PostgresListener:
    """LISTENs to `<schema>.<topic>` channels. A pooler in transaction mode cannot carry this."""

    def __init__(self, connection: Connection, schema: str | None) -> None:
        self._connection = connection
        self._schema = schema
        self._closing = asyncio.Event()

    async def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Pairs of topic and payload until closed; DatabaseUnavailable when the connection is lost."""
        closing = asyncio.ensure_future(self._closing.wait())
        coming: asyncio.Task[psycopg.Notify | None] | None = None
        try:
            prefix = await self._listen(topics)
            stream = self._connection.notifies()
            while True:
                coming = asyncio.ensure_future(anext(stream, None))
                await asyncio.wait({closing, coming}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done() or (notify := coming.result()) is None:
                    return
                yield notify.channel.removeprefix(prefix), notify.payload
        except psycopg.Error as error:
            if self._closing.is_set():
                return
            if isinstance(error, psycopg.OperationalError):
                raise DatabaseUnavailable("The connection to the database was lost.") from error
            raise translate(error) from error
        finally:
            closing.cancel()
            if coming is not None and not coming.done():
                coming.cancel()
                with suppress(asyncio.CancelledError, psycopg.Error):
                    await coming

    async def close(self) -> None:
        """Ends the connection; safe to call twice."""
        self._closing.set()
        # Gives a waiting `notifications` its turn to let go of the connection.
        await asyncio.sleep(0)
        await self._connection.close()

    async def _listen(self, topics: tuple[str, ...]) -> str:
        schema = self._schema
        if schema is None:
            cursor = self._connection.cursor(row_factory=tuple_row)
            await cursor.execute("select coalesce(current_schema(), '')", prepare=False)
            row = await cursor.fetchone()
            schema = row[0] if row else ""
        prefix = f"{schema}."
        for topic in topics:
            await self._connection.execute(sql.SQL("listen {}").format(sql.Identifier(prefix + topic)))
        return prefix
