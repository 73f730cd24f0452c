"""Tasks in the background: whether they run, and how they are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, TypeGuard


def is_running(task: asyncio.Task[Any] | None) -> TypeGuard[asyncio.Task[Any]]:
    """Return whether a task has not ended, and belongs to the current event loop: one of another
    loop, which may be closed, never ends.
    """
    return task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop()


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, repeatedly, until each has ended."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        # A pool that hands out a connection at that moment loses the cancellation.
        _, left = await asyncio.wait(left, timeout=0.5)
