"""Whether the database answers, asked rarely however many want to know."""

from __future__ import annotations

import asyncio
import logging
import time

from riverui.errors import DatabaseError
from riverui.storage.interface import Driver

log = logging.getLogger("riverui.health")

_REMEMBER_SECONDS = 1.0
_PATIENCE_SECONDS = 2.5


class Probe:
    """Asks at most once a second and waits at most 2.5 seconds."""

    def __init__(self, driver: Driver) -> None:
        self._asking: asyncio.Task[bool] | None = None
        self._asked_at = 0.0
        self._driver = driver
        self._well = True

    async def answers(self) -> bool:
        """Whether it does."""
        now = time.monotonic()
        asking = self._asking
        if asking is None or (asking.done() and now - self._asked_at > _REMEMBER_SECONDS):
            self._asked_at = now
            asking = self._asking = asyncio.create_task(self._ask())
        # Shielded: one prober that hangs up must not take the answer from the others.
        return await asyncio.shield(asking)

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._driver.ping()
        except (DatabaseError, TimeoutError) as error:
            if self._well:
                log.warning("the database does not answer: %s", str(error) or "no answer in time")
            self._well = False
            return False
        self._well = True
        return True
