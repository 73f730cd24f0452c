"""Cancel background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, repeatedly, until each has ended."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        # A pool that hands out a connection at that moment loses the cancellation.
        _, left = await asyncio.wait(left, timeout=0.5)
