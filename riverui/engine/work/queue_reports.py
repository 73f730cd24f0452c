"""Reports the queues of a client, and polls for changes that notifications may have missed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from riverui.domain.queues import QueueRow
from riverui.engine.service import WakeUp
from riverui.engine.waiting import backoff, pass_on_cancellation
from riverui.engine.work.attempt import Attempt, Cause
from riverui.errors import RiveruiError
from riverui.storage.interface import Driver

if TYPE_CHECKING:
    from riverui.engine.work.producer import Producer

_IDS_AT_ONCE = 1_000
"""Running jobs per statement that checks for cancellation, so that it is short."""
_REPORT_SECONDS = 600.0
"""Seconds between two reports that the queues are worked: River's figure."""


class QueueReports:
    """Reports all queues that a client works."""

    def __init__(
        self,
        driver: Driver,
        queues: Mapping[str, Producer],
        attempts: Callable[[], Iterable[Attempt]],
        *,
        logger: logging.Logger,
        look_seconds: float,
    ) -> None:
        self._attempts = attempts
        self._driver = driver
        self._logger = logger
        self.look_seconds = look_seconds
        """Seconds from one poll to the next."""
        self._queues = queues
        self._wake_up = WakeUp()

    def look(self) -> None:
        """Poll at once: notifications may have been missed."""
        self._wake_up.set()

    async def run(self) -> None:
        """Poll and report until cancelled; after an error, again after 1, 2, 4 … seconds."""
        report_at = time.monotonic() + _REPORT_SECONDS
        failures = 0
        while True:
            pass_on_cancellation()
            seconds = self.look_seconds
            await self._wake_up.wait(min(seconds, backoff(failures)) if failures else seconds)
            due = time.monotonic() >= report_at
            try:
                await self._look(report=due)
                await self._look_for_cancellations()
                failures = 0
            except RiveruiError as error:
                failures += 1
                if failures == 1:
                    self._logger.warning("the queues' rows cannot be read or updated: %s", error)
            else:
                if due:
                    report_at = time.monotonic() + _REPORT_SECONDS

    async def _look(self, *, report: bool) -> None:
        """Read which queues are paused; `report` renews all their rows, otherwise only missing rows
        are inserted.
        """
        queues = dict(self._queues)
        rows: dict[str, QueueRow] = {}
        async with self._driver.autocommit() as executor:
            if not report:
                rows = {row.name: row for row in await executor.queues.row_get_many(list(queues))}
            if missing := [name for name in queues if name not in rows]:
                rows |= {row.name: row for row in await executor.queues.upsert_many(missing)}
        for name, queue in queues.items():
            queue.learn(rows[name])

    async def _look_for_cancellations(self) -> None:
        # Attempts, not ids: a new attempt at the same job may have begun before the result arrives.
        attempts = {attempt.row.id: attempt for attempt in self._attempts()}
        ids = list(attempts)
        for at in range(0, len(ids), _IDS_AT_ONCE):
            async with self._driver.autocommit() as executor:
                for job_id in await executor.work.cancel_requested(ids[at : at + _IDS_AT_ONCE]):
                    attempts[job_id].end(Cause.REMOTE)
