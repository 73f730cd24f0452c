"""Receives notifications from River's table of them, which other processes write too."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from riverui.errors import LockTimeout
from riverui.storage.sqlite.file import Connection, SqliteFile
from riverui.storage.sqlite.scopes import translated

_POLL = 0.05
"""Seconds between two looks at the table: River's number. Notifications of this process come at
once.
"""
_AT_ONCE = 256
"""Notifications that one look reads: River's number."""


class SqliteListener:
    """Reads the notifications that are written from its first `listen` on, for one reader, in the
    event loop that made it.
    """

    def __init__(self, file: SqliteFile) -> None:
        self._connection: Connection | None = None
        self._closed = False
        self._file = file
        self._heard: deque[tuple[str, str]] = deque()
        self._last = 0
        self._loop = asyncio.get_running_loop()
        self._topics: set[str] = set()
        self._unlisten: Callable[[], None] | None = None
        self._wake = asyncio.Event()

    async def listen(self, *topics: str) -> None:
        """Receive these topics too."""
        if self._connection is None:
            with translated():
                self._connection = self._file.take()
                last = self._connection.execute("select max(id) from river_notification")
            self._last = last[0][0] or 0
            self._unlisten = self._file.listen(self._hear)
        self._topics.update(topics)

    async def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Yield pairs of topic and payload, until closed."""
        await self.listen(*topics)
        while not self._closed:
            self._wake.clear()
            self._read()
            if not self._heard:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), _POLL)
            while self._heard and not self._closed:
                yield self._heard.popleft()

    async def close(self) -> None:
        """Stop receiving; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._unlisten is not None:
            self._unlisten()
        if self._connection is not None:
            self._file.give(self._connection)
            self._connection = None
        self._wake.set()

    def _read(self) -> None:
        assert self._connection is not None
        # Another process may be recovering the file: the next look is soon.
        with suppress(LockTimeout), translated():
            rows = self._connection.execute(
                "select id, topic, payload from river_notification where id > ? and topic in"
                " (select value from json_each(?)) order by id limit ?",
                [self._last, json.dumps([*self._topics]), _AT_ONCE],
            )
            for self._last, topic, payload in rows:
                self._heard.append((topic, payload))

    def _hear(self) -> None:
        # A closed loop has no reader left.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake.set)
