"""Keep the parts of a client running: restart failed services, and wake waiting tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from riverui.engine.waiting import Backoff, backoff
from riverui.errors import RiveruiError

_RECOVERED_AFTER = 60.0
"""Seconds of running after which earlier failures are forgotten: about the longest backoff."""


async def keep_running(
    name: str,
    run: Callable[[], Awaitable[None]],
    logger: logging.Logger,
    *,
    backoff: Backoff = backoff,
) -> None:
    """Await `run`, and again after each error, in 2^n seconds ±10 % (1 to 64, River's backoff).

    Each error is logged. It returns when `run` does.
    """
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        began = loop.time()
        try:
            await run()
            return
        except Exception as error:
            failures = 1 if loop.time() - began > _RECOVERED_AFTER else failures + 1
            seconds = backoff(failures)
            # Our own errors are self-explanatory; others are bugs, and need their traceback.
            trace = None if isinstance(error, RiveruiError) else error
            logger.error("%s failed, retrying in %.1f s: %s", name, seconds, error, exc_info=trace)
            await asyncio.sleep(seconds)


class WakeUp:
    """Wakes one waiting task; if none waits, the next one continues at once."""

    __slots__ = ("_set", "_waiter")

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiting task, or the next one to wait; several calls count once."""
        self._set = True
        if self._waiter is not None:
            _wake(self._waiter)

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for `set`, up to so many seconds; return whether it was called."""
        if not self._set and (seconds is None or seconds > 0):
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = None if seconds is None else loop.call_later(seconds, _wake, waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        woken, self._set = self._set, False
        return woken


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
