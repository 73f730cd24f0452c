"""Tells when a job held the event loop up: the others, and the client itself, stand still
meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable

from riverui.engine.work.attempt import Attempt

_EVERY = 1.0
_TOO_LONG = 1.0
"""Seconds of standstill that are worth a word."""
_MOST_KINDS = 5


async def watch_loop(attempts: Callable[[], Iterable[Attempt]], logger: logging.Logger) -> None:
    """Looks every second whether it gets its turn in time, until cancelled; names the jobs at
    work.
    """
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _EVERY
        await asyncio.sleep(_EVERY)
        late = loop.time() - due
        if late > _TOO_LONG:
            kinds = Counter(
                attempt.row.kind for attempt in attempts() if attempt.unit and attempt.unit.is_async
            )
            logger.warning(
                "the event loop was blocked for %.1f s: a job blocks it instead of awaiting"
                " (a synchronous worker would run in a thread); async jobs running: %s",
                late,
                ", ".join(kind for kind, _ in kinds.most_common(_MOST_KINDS)) or "none now",
            )
