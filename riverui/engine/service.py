"""How the parts of a client are kept running: coroutines, restarted with backoff, until
cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from riverui.engine.waiting import backoff
from riverui.errors import RiveruiError

_WELL = 60.0
"""Seconds of running after which earlier failures are forgotten."""


async def keep_running(
    name: str, run: Callable[[], Awaitable[None]], logger: logging.Logger
) -> None:
    """Runs `run` for ever: after an error again, in 2^n seconds ±10 % (1 to 64, River's backoff),
    logged.
    """
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        began = loop.time()
        try:
            await run()
            return
        except Exception as error:
            failures = 1 if loop.time() - began > _WELL else failures + 1
            seconds = backoff(failures)
            # Our own errors say it all; others are bugs, and need their traceback.
            trace = None if isinstance(error, RiveruiError) else error
            logger.error("%s failed, retrying in %.1f s: %s", name, seconds, error, exc_info=trace)
            await asyncio.sleep(seconds)


class Bell:
    """Wakes one waiting task; rung while nobody waits, it lets the next one pass at once."""

    __slots__ = ("_rung", "_waiter")

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wakes the waiting task, or the next to wait; several times count once."""
        self._rung = True
        if self._waiter is not None:
            _wake(self._waiter)

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the bell, at most so long; whether it rang."""
        if not self._rung and (seconds is None or seconds > 0):
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, _wake, waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        rung, self._rung = self._rung, False
        return rung


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
