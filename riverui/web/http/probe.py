"""Check whether the database answers, at a limited rate."""

from __future__ import annotations

import asyncio
import logging
import time

from riverui.errors import DatabaseError
from riverui.storage.interface import Driver

log = logging.getLogger("riverui.health")

_FRESH_SECONDS = 1.0
"""Seconds for which one result is reused: many balancers cost one query a second."""
TIMEOUT_SECONDS = 2.5
"""Time limit of the query in seconds: less than the 3 to 5 seconds that orchestrators
allow a probe.
"""


class Probe:
    """Queries the database at most once a second, and waits at most `timeout` seconds."""

    def __init__(self, driver: Driver, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._asking: asyncio.Task[bool] | None = None
        self._asked_at = 0.0
        self._driver = driver
        self._answered = True
        self._timeout = timeout

    async def answers(self) -> bool:
        """Return whether the database answers."""
        now = time.monotonic()
        asking = self._asking
        if asking is None or (asking.done() and now - self._asked_at > _FRESH_SECONDS):
            self._asked_at = now
            asking = self._asking = asyncio.create_task(self._ask())
        # Shielded: a caller that gives up must not cancel the query for the others.
        return await asyncio.shield(asking)

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(self._timeout):
                await self._driver.ping()
        except (DatabaseError, TimeoutError) as error:
            if self._answered:
                log.warning("the database does not answer: %s", str(error) or "no answer in time")
            self._answered = False
            return False
        self._answered = True
        return True
