"""Receives notifications of a memory database, from any thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

from riverui.storage.memory.tables import Tables


class MemoryListener:
    """Keeps notifications for one reader, in the event loop that made it."""

    def __init__(self, tables: Tables) -> None:
        self._closed = False
        self._heard: deque[tuple[str, str]] = deque()
        self._loop = asyncio.get_running_loop()
        self._tables = tables
        self._topics: set[str] = set()
        self._wake = asyncio.Event()
        with tables.lock:
            tables.listeners.append(self._hear)

    async def listen(self, *topics: str) -> None:
        """Receive these topics too."""
        self._topics.update(topics)

    async def notifications(self, *topics: str) -> AsyncIterator[tuple[str, str]]:
        """Yield pairs of topic and payload, until closed."""
        await self.listen(*topics)
        while not self._closed:
            while self._heard:
                yield self._heard.popleft()
            self._wake.clear()
            if not self._heard and not self._closed:
                await self._wake.wait()

    async def close(self) -> None:
        """Stop receiving; safe to call twice."""
        if not self._closed:
            self._closed = True
            with self._tables.lock:
                self._tables.listeners.remove(self._hear)
            self._wake.set()

    def _hear(self, topic: str, payload: str) -> None:
        if topic in self._topics:
            self._heard.append((topic, payload))
            # A closed loop has no reader left.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)
