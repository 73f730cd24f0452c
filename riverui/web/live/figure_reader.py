"""Where pages, charts and reports get their figures from, however those were gathered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol, TypeVar

from riverui.domain.figures import Figures, Window
from riverui.domain.queues import QueueMinute

T = TypeVar("T")

_PROMPT = 0.005
"""Seconds that pages wait for figures which are about something else: less than they take by
themselves, so that the first page of a process is not slower than the next.
"""


async def promptly(reading: Awaitable[T]) -> T | None:
    """Return what is known of figures at once; None where nobody has read any yet."""
    try:
        return await asyncio.wait_for(reading, _PROMPT)
    except TimeoutError:
        return None


class FigureReader(Protocol):
    """Tells figures; the collector of a dashboard is one."""

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the figures of a window, of one queue or of one kind where they are named.

        Answers at once with what is known: it starts the collector where it rests, and waits for
        a first reading a second at most. Never raises for the database's sake: `Figures.trouble`
        tells.
        """
        ...

    async def read_queues(self) -> Mapping[str, Sequence[QueueMinute | None]]:
        """Return the minutes of the last hour of each queue of which anything is known, the oldest
        first and the newest not yet over; None for a minute of which nothing is known.
        """
        ...

    async def close(self) -> None:
        """Stop what runs in the background."""
        ...
