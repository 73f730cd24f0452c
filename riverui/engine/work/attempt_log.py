"""The log of one attempt at a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from riverui.engine.work.outcome import make_storable

if TYPE_CHECKING:
    from riverui.engine.work.attempt import Attempt


class AttemptLog:
    """The log of one attempt, up to a size limit."""

    __slots__ = ("_most", "_pieces", "attempt", "full", "size", "unwritten", "writing")

    def __init__(self, attempt: Attempt, most: int) -> None:
        self._most = most
        self._pieces: list[str] = []
        self.attempt: Attempt | None = attempt
        """None after its end."""
        self.full = False
        """Whether lines were left out."""
        self.size = 0
        """Bytes as UTF-8."""
        self.unwritten = False
        self.writing: asyncio.Future[None] | None = None

    def append(self, line: str) -> bool:
        """Add a line, truncated if the log is full; return whether anything was added."""
        if self.full:
            return False
        encoded = make_storable(line + "\n", self._most).encode()
        room = self._most - self.size
        if len(encoded) > room:
            self.full = True
            encoded = encoded[:room]
        self._pieces.append(encoded.decode(errors="ignore"))
        self.size += len(encoded)
        return True

    def text(self) -> str:
        """Return the whole log."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def end(self) -> None:
        """Clear the log: a pending write finds nothing."""
        self._pieces.clear()
        self.attempt = None
