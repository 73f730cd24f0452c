"""Notifies programs that wait for jobs when these have ended in this client."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from riverui.engine.job_results import ids_of, payloads
from riverui.engine.notifier import JOB_ENDED
from riverui.errors import DatabaseError
from riverui.storage.interface import Driver

_REMEMBERED_SECONDS = 60.0
"""How long a job counts as waited for: programs that wait repeat it in half the time."""
_MAX_JOBS = 10_000
"""Most jobs that are remembered, about a megabyte; the oldest are forgotten, and found by polls."""


class WantedEnds:
    """Jobs that programs wait for. It costs nothing while there are none."""

    def __init__(
        self,
        driver: Driver,
        logger: logging.Logger,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._driver = driver
        self._ended: set[int] = set()
        """Ended jobs to send notifications for."""
        self._logger = logger
        self._notifying: asyncio.Task[None] | None = None
        self.ids: dict[int, float] = {}
        """When each job is forgotten, soonest first."""

    def want(self, message: Mapping[str, Any]) -> None:
        """Remember the jobs that a notification names."""
        until = self._clock() + _REMEMBERED_SECONDS
        for job_id in ids_of(message)[-_MAX_JOBS:]:
            self.ids.pop(job_id, None)
            self.ids[job_id] = until
        self._forget()

    def ended(self, ids: Iterable[int]) -> None:
        """Send notifications for those jobs that are waited for."""
        self._forget()
        ended = [job_id for job_id in ids if self.ids.pop(job_id, None) is not None]
        if ended:
            self._ended.update(ended)
            if self._notifying is None:
                self._notifying = asyncio.create_task(self._notify(), name="riverui ends of jobs")

    async def close(self) -> None:
        """Wait until all notifications are sent."""
        if self._notifying is not None:
            await self._notifying

    async def _notify(self) -> None:
        try:
            while self._ended:
                ended, self._ended = self._ended, set()
                async with self._driver.autocommit() as executor:
                    await executor.notify_many(JOB_ENDED, payloads(ended))
        except DatabaseError as error:
            self._logger.debug("ends of jobs could not be notified: %s", error)
        finally:
            self._notifying = None

    def _forget(self) -> None:
        now, wanted = self._clock(), self.ids
        while wanted:
            oldest = next(iter(wanted))
            if wanted[oldest] > now and len(wanted) <= _MAX_JOBS:
                break
            del wanted[oldest]
