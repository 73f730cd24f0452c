"""Reports the queues of a client, and looks for what notifications should have told about them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from riverui.domain.queues import QueueRow
from riverui.engine.service import Bell
from riverui.engine.waiting import backoff, pass_on_cancellation
from riverui.engine.work.attempt import Cause
from riverui.errors import RiveruiError

if TYPE_CHECKING:
    from riverui.engine.runtime import Machinery

_LOOK_EVERY = 60.0
"""Seconds between two looks for what a notification should have told."""
_LOOK_EVERY_WITHOUT_NOTIFIER = 2.0
_MOST_IDS = 1_000
"""Jobs at work of which one statement asks whether they are to be cancelled."""
_REPORT_EVERY = 600.0
"""Seconds between two reports that the queues are served: River's figure."""


class QueueReports:
    """Of all queues that a client serves."""

    def __init__(self, machinery: Machinery) -> None:
        self._bell = Bell()
        self._machinery = machinery

    def look(self) -> None:
        """Looks at once: notifications may have been missed."""
        self._bell.ring()

    async def run(self) -> None:
        """Looks and reports for ever; while the database is away, again after 1, 2, 4 … seconds."""
        machinery = self._machinery
        every = _LOOK_EVERY if machinery.notifier else _LOOK_EVERY_WITHOUT_NOTIFIER
        report_at = time.monotonic() + _REPORT_EVERY
        failures = 0
        while True:
            pass_on_cancellation()
            await self._bell.wait(min(every, backoff(failures)) if failures else every)
            due = time.monotonic() >= report_at
            try:
                await self._look(report=due)
                await self._look_for_cancellations()
                failures = 0
            except RiveruiError as error:
                failures += 1
                if failures == 1:
                    machinery.logger.warning(
                        "the queues' rows cannot be read or updated: %s", error
                    )
            else:
                if due:
                    report_at = time.monotonic() + _REPORT_EVERY

    async def _look(self, *, report: bool) -> None:
        """Whether queues are paused; `report` renews all their rows, otherwise only what is gone is
        made.
        """
        producers = dict(self._machinery.producers)
        rows: dict[str, QueueRow] = {}
        async with self._machinery.driver.autocommit() as executor:
            if not report:
                rows = {row.name: row for row in await executor.queue_row_get_many(list(producers))}
            if missing := [name for name in producers if name not in rows]:
                rows |= {row.name: row for row in await executor.queue_upsert_many(missing)}
        for name, producer in producers.items():
            producer.learn(rows[name])

    async def _look_for_cancellations(self) -> None:
        # Attempts, not ids: by the time of the answer a new attempt at the same job may be under
        # way.
        attempts = {attempt.row.id: attempt for attempt in self._machinery.at_work()}
        ids = list(attempts)
        for at in range(0, len(ids), _MOST_IDS):
            async with self._machinery.driver.autocommit() as executor:
                for job_id in await executor.job_cancel_requested(ids[at : at + _MOST_IDS]):
                    attempts[job_id].end(Cause.REMOTE)
