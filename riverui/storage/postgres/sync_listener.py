"""Receives notifications without asyncio, on its own connection."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from riverui.errors import DatabaseUnavailable
from riverui.storage.postgres.errors import refused
from riverui.storage.postgres.sessions import hang_up


class PostgresSyncListener:
    """Receives `<schema>.<topic>` channels by LISTEN, which needs its own server process.
    DatabaseUnavailable if it cannot connect, or the connection is lost.
    """

    def __init__(self, conninfo: str, schema: str | None) -> None:
        try:
            self._connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
        except (psycopg.Error, OSError) as error:
            raise refused(error) from error
        self._prefix = ""
        self._schema = schema

    def listen(self, *topics: str) -> None:
        """Return once the server sends new notifications."""
        try:
            self._prefix = f"{self._schema or self._current_schema()}."
            for topic in topics:
                self._connection.execute(
                    sql.SQL("listen {}").format(sql.Identifier(self._prefix + topic))
                )
        except psycopg.Error as error:
            raise _lost() from error

    def heard(self, seconds: float) -> Sequence[tuple[str, str]]:
        """Return topics and payloads as soon as any arrive; none after so many seconds."""
        try:
            return [
                (notify.channel.removeprefix(self._prefix), notify.payload)
                for notify in self._connection.notifies(timeout=seconds, stop_after=1)
            ]
        except psycopg.Error as error:
            raise _lost() from error

    def hang_up(self) -> None:
        """End `heard` in another thread, which has to close the listener."""
        hang_up(self._connection)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _current_schema(self) -> str:
        row = self._connection.execute("select coalesce(current_schema(), '')").fetchone()
        return str(row[0]) if row else ""


def _lost() -> DatabaseUnavailable:
    return DatabaseUnavailable("The connection to the database was lost.")
