"""Warns when a job blocks the event loop: meanwhile neither other jobs nor the client run."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable

from riverui.engine.limits import EngineLimits
from riverui.engine.work.attempt import Attempt

_MAX_KINDS = 5
"""Kinds of jobs that a warning names: the most frequent are the most likely causes."""


async def watch_loop(
    attempts: Callable[[], Iterable[Attempt]], limits: EngineLimits, logger: logging.Logger
) -> None:
    """Check every second whether the event loop is on time, until cancelled; if it is late, log a
    warning with the kinds of the running async jobs.
    """
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + limits.loop_check_seconds
        await asyncio.sleep(limits.loop_check_seconds)
        late = loop.time() - due
        if late > limits.loop_blocked_seconds:
            kinds = Counter(
                attempt.row.kind for attempt in attempts() if attempt.unit and attempt.unit.is_async
            )
            logger.warning(
                "the event loop was blocked for %.1f s by code that does not await: a job (a"
                " synchronous worker would run in a thread), or other code of the program; async"
                " jobs running: %s",
                late,
                ", ".join(kind for kind, _ in kinds.most_common(_MAX_KINDS)) or "none now",
            )
