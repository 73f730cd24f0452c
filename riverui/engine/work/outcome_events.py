"""Tells a client's subscribers how jobs ended, once that is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from riverui.domain.jobs import FINALIZED, JobRow, JobState
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.events import Event, EventKind, Events, JobStats
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.outcome import Outcome
from riverui.engine.work.wanted_ends import WantedEnds
from riverui.errors import RiveruiError
from riverui.storage.interface.engine_params import JobSelectParams

_STATE = JobRow._fields.index("state")
_FINALIZED_AT = JobRow._fields.index("finalized_at")
_new = tuple.__new__

_AVAILABLE_AGAIN = (EventKind.JOB_FAILED, EventKind.JOB_INTERRUPTED, EventKind.JOB_SNOOZED)
_EVENTS = {
    JobState.CANCELLED: EventKind.JOB_CANCELLED,
    JobState.COMPLETED: EventKind.JOB_COMPLETED,
    JobState.DISCARDED: EventKind.JOB_FAILED,
    JobState.RETRYABLE: EventKind.JOB_FAILED,
    JobState.SCHEDULED: EventKind.JOB_SNOOZED,
}


class OutcomeEvents:
    """Makes events of outcomes, in the order in which they were written."""

    def __init__(
        self,
        connection: DedicatedConnection,
        events: Events,
        *,
        clock: Callable[[], datetime],
        logger: logging.Logger,
        wanted: WantedEnds | None = None,
    ) -> None:
        self._clock = clock
        self._connection = connection
        self._events = events
        self._logger = logger
        self._telling: asyncio.Task[None] | None = None
        self._wanted = wanted

    async def told(self) -> None:
        """Wait until subscribers were told of what was written before."""
        while (telling := self._telling) is not None:
            await telling
            # Another one may have waited for it too, and have begun to tell by now.
            if self._telling is telling:
                self._telling = None

    async def tell_completed(self, batch: dict[int, Attempt], written: Sequence[int]) -> None:
        """Begin to tell of attempts that just went well, of which those of `written` were still
        running; the next outcomes can be on their way to the database meanwhile.
        """
        if self._wanted and self._wanted.ids:
            self._wanted.ended(batch)
        await self.told()
        if self._events.subscriptions:
            self._telling = asyncio.create_task(self._tell_completed(batch, written))

    async def tell_changed(
        self, batch: Mapping[int, tuple[Attempt, Outcome]], rows: Sequence[JobRow]
    ) -> None:
        """Tell of attempts that ended otherwise, with their rows as they are now."""
        if self._wanted and self._wanted.ids:
            self._wanted.ended(row.id for row in rows if row.state in FINALIZED)
        await self.told()
        if self._events.subscriptions:
            for row in rows:
                # A feature may return rows of other jobs, whose states it has changed along.
                if found := batch.get(row.id):
                    attempt, ended = found
                    self._tell(row, attempt, ended.event)

    async def _tell_completed(self, batch: dict[int, Attempt], written: Sequence[int]) -> None:
        ended = [batch.pop(job_id) for job_id in written]
        if self._events.wants(EventKind.JOB_COMPLETED):
            now = self._clock()
            for attempt in ended:
                self._events.publish(_completion(attempt, now))
        if not batch:
            return
        # Something else ended these meanwhile, perhaps the job itself in a transaction of its own.
        params = JobSelectParams(ids=tuple(batch), limit=len(batch))
        try:
            rows = await self._connection.call(lambda executor: executor.job_row_list(params))
        except RiveruiError as error:
            self._logger.warning("subscribers missed %s events: %s", len(batch), error)
            return
        for row in rows:
            self._tell(row, batch.pop(row.id), EventKind.JOB_FAILED)
        for attempt in batch.values():
            # One that completed itself and is ephemeral is gone.
            if attempt.ephemeral and attempt.completed_at is not None:
                self._events.publish(_completion(attempt, self._clock()))

    def _tell(self, row: JobRow, attempt: Attempt, wanted: EventKind) -> None:
        """Publish what became of a job, by its row; `wanted` tells what being available again
        means.
        """
        kind = wanted if row.state is JobState.AVAILABLE else _EVENTS.get(row.state)
        if kind is None or not self._events.wants(kind):
            return
        if row.state is JobState.AVAILABLE and kind not in _AVAILABLE_AGAIN:
            kind = EventKind.JOB_FAILED
        stats = JobStats(
            complete_duration=self._clock() - attempt.ended_at,
            queue_wait_duration=attempt.started_at - attempt.row.scheduled_at,
            run_duration=attempt.ended_at - attempt.started_at,
        )
        self._events.publish(Event(kind=kind, job=row, stats=stats))


def _completion(attempt: Attempt, now: datetime) -> Event:
    """Return the event of a job that just went well: made for each of them, so it has to be
    quick.
    """
    row, ended_at = attempt.row, attempt.ended_at
    # What `row._replace(state=…, finalized_at=…)` gives, in a third of the time.
    values = list(row)
    values[_STATE], values[_FINALIZED_AT] = JobState.COMPLETED, ended_at
    ended = _new(JobRow, values)
    stats = JobStats(
        now - ended_at, attempt.started_at - row.scheduled_at, ended_at - attempt.started_at
    )
    return Event(EventKind.JOB_COMPLETED, ended, stats)
