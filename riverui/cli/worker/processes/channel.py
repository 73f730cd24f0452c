"""What a supervisor and one of its processes tell each other: JSON objects on a socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Self

Message = dict[str, Any]

_MOST_BYTES = 64 * 1024 * 1024
"""Of one message: the largest are the figures of thousands of kinds."""


class Channel:
    """One end of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Self:
        """Return a channel on this end of a pair of sockets."""
        return cls(*await asyncio.open_unix_connection(sock=end, limit=_MOST_BYTES))

    def send(self, message: Message) -> None:
        """Send a message, without waiting; one that the other end will never read is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def finish(self) -> None:
        """End it once what was sent is on its way, or nobody reads it any more."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what comes, until the other end is gone."""
        try:
            while line := await self._reader.readline():
                yield json.loads(line)
        except OSError:
            return

    def close(self) -> None:
        """End it."""
        self._writer.close()
