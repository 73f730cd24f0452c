"""Reads the catalogs and statistics of the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from riverui.features.database.domain.facts import (
    Holder,
    IndexState,
    Limit,
    ServerState,
    TableState,
)
from riverui.storage.store import Store


class DatabaseStore(Store):
    """Reads about the server, and about the tables and indexes of River and riverui."""

    async def database_server(self, clock: Callable[[], datetime]) -> ServerState:
        """Return the server's state; `clock` returns the time of this process."""
        before = clock()
        row = (await self._sql.row("database_server", {"schema": self._sql.schema}))._asdict()
        here, own = before + (clock() - before) / 2, self._sql.backend_pid
        pid, limits = row.pop("pid"), row.pop("limits")
        return ServerState(
            **row,
            ahead=row["at"] - here,
            direct=None if own is None else own == pid,
            limits=[msgspec.json.decode(limit, type=Limit) for limit in limits],
        )

    async def database_holder_list(self) -> Sequence[Holder]:
        """Return who keeps dead rows, the longest first."""
        rows = await self._sql.rows("database_holder_list")
        return [Holder(**row._asdict()) for row in rows.records()]

    async def database_table_list(self) -> Sequence[TableState]:
        """Return the tables, the largest first."""
        rows = await self._sql.rows("database_table_list", {"schema": self._sql.schema})
        return [TableState(**row._asdict()) for row in rows.records()]

    async def database_index_list(self) -> Sequence[IndexState]:
        """Return their indexes, the largest first."""
        rows = await self._sql.rows("database_index_list", {"schema": self._sql.schema})
        return [IndexState(**row._asdict()) for row in rows.records()]
