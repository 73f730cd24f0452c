"""One queue that a client works: reports it, pauses, resumes and scales it, and leaves it at the
end.

`Fetcher` fetches its jobs, `SlotLedger` counts its slots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from riverui.domain.jobs import JsonText
from riverui.domain.json import write_json
from riverui.domain.queues import ALL_QUEUES, QueueRow
from riverui.engine.client_context import ClientContext
from riverui.engine.config import QueueConfig
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.events import Event, EventKind
from riverui.engine.notifier import CONTROL, Notifier, Unsubscribe
from riverui.engine.pilot import ProducerStatus
from riverui.engine.service import keep_running
from riverui.engine.work.attempt import Cause
from riverui.engine.work.candidate_fetch import SignsOfLife
from riverui.engine.work.failure_log import job_fields
from riverui.engine.work.fetch_pace import FetchPace
from riverui.engine.work.fetcher import Fetcher
from riverui.engine.work.job_executor import JobExecutor
from riverui.engine.work.lost_fetches import LostFetches
from riverui.engine.work.queue_poller import QueuePoller
from riverui.engine.work.stuck_jobs import StuckJobs


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerParts:
    """What the producers of one client share."""

    connection: DedicatedConnection
    """For fetching."""
    second_connection: DedicatedConnection
    """For a second fetch at the same time: opened if a queue has a backlog, and room for it."""
    executor: JobExecutor
    lost: LostFetches
    notifier: Notifier | None
    pace: FetchPace
    poller: QueuePoller
    signs: SignsOfLife
    stuck_jobs: StuckJobs


class Producer:
    """Works one queue in this process."""

    def __init__(
        self, name: str, queue: QueueConfig, client: ClientContext, parts: ProducerParts
    ) -> None:
        self.client = client
        self.config = queue
        self.look_again = False
        """Whether the queue was paused or resumed while its row was being read."""
        self.name = name
        self.signs = parts.signs
        """The client's heartbeats."""
        self._choosers = client.pilot.choosers(self)
        self.fetcher = fetcher = Fetcher(name, queue, self._choosers, client, parts)
        self._parts = parts
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: list[Unsubscribe] = []
        self.slots = fetcher.slots
        """Its slots, and the attempts that hold them."""

    @property
    def cooldown(self) -> float:
        """Seconds between two fetches that find nothing."""
        return self.fetcher.cooldown

    @property
    def last_fetched_at(self) -> datetime | None:
        """When the database last answered."""
        return self.fetcher.last_fetched_at

    @property
    def paused(self) -> bool:
        """Whether the queue is paused, as far as is known."""
        return self.fetcher.paused

    @property
    def status(self) -> ProducerStatus:
        """Return the status for features."""
        return ProducerStatus(
            client_id=self.client.id,
            queue=self.name,
            max_workers=self.slots.max_workers,
            running=tuple(self.slots.attempts),
        )

    async def start(self) -> None:
        """Report the queue and start fetching. Raise the database's errors."""
        notifier = self._parts.notifier
        if notifier is not None:
            self._unsubscribe = [
                notifier.subscribe(CONTROL, self._on_control),
                notifier.on_reconnect(self.wake),
            ]
        try:
            row = await self._report()
            for chooser in self._choosers:
                await chooser.start(row)
        except BaseException:
            await self.close()
            raise
        self.fetcher.paused = row.paused_at is not None
        self._keep_running(f"fetching queue {self.name}", self.fetcher.run)
        self._keep_running(f"looking at queue {self.name}", self.fetcher.run_looks)
        self._widen()
        self._parts.poller.add(self.fetcher)

    def scale(self, max_workers: int) -> None:
        """Set how many jobs run at once; excess running jobs are not interrupted."""
        self.config = replace(self.config, max_workers=max_workers)
        self.slots.max_workers = max_workers
        self._widen()
        self.wake()

    def wake(self) -> None:
        """Fetch as soon as the cooldown allows."""
        self.fetcher.wake()

    def given_back(self) -> None:
        """Fetch as `wake` does, from the beginning: jobs of any time are available again."""
        self.fetcher.start.go_back()
        self.wake()

    def refill(self) -> None:
        """Fetch because jobs that are known to wait may begin."""
        self.fetcher.refill()

    def fetch_now(self) -> None:
        """Fetch at once, without the cooldown; callers must rate-limit."""
        self.fetcher.fetch_now()

    def notified(self) -> None:
        """Fetch as `wake` does, because a notification has announced jobs."""
        for chooser in self._choosers:
            if chooser.active:
                chooser.news()
        self.wake()

    def learn(self, row: QueueRow) -> None:
        """Apply the queue's row: whether it is paused, and its metadata."""
        for chooser in self._choosers:
            chooser.learn(row)
        self._set_paused(row.paused_at is not None, row)

    def stop(self) -> None:
        """Stop fetching. Jobs of current fetches are still worked."""
        self.fetcher.stop()

    def end_jobs(self) -> None:
        """Cancel running jobs, and those that may still arrive."""
        self.fetcher.stop_cause = Cause.STOP
        self._end_attempts(Cause.STOP)

    def hold_back(self, cause: Cause) -> None:
        """Stop fetching until `go_on`; cancel running jobs, and those that may still arrive."""
        self.fetcher.held_back = cause
        self._end_attempts(cause)

    def go_on(self) -> None:
        """Resume fetching after `hold_back`."""
        self.fetcher.held_back = None
        self.wake()

    async def close(self) -> None:
        """Leave the queue, even if jobs are still running."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        await self._parts.poller.remove(self.fetcher)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for chooser in self._choosers:
            await chooser.stop()

    async def _report(self) -> QueueRow:
        """Report to the database and the features that the queue is worked, and return its row."""
        driver, pilot = self.client.driver, self.client.pilot
        if not pilot.starts:
            async with driver.autocommit() as executor:
                return await executor.queues.upsert(self.name)
        async with driver.transaction() as transaction:
            row = await transaction.queues.upsert(self.name)
            await pilot.producer_start(transaction, self.status)
            return row

    def _widen(self) -> None:
        """Fetch on a second connection too, when there may be room for two results."""
        fetcher = self.fetcher
        if not fetcher.wide and self.slots.max_workers >= 2 * self.client.limits.fetch_rows:
            fetcher.wide = True
            self._keep_running(f"fetching more of queue {self.name}", fetcher.run_second)

    def _keep_running(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        running = keep_running(name, run, self.client.logger)
        self._tasks.append(asyncio.create_task(running, name=f"riverui {name}"))

    def _end_attempts(self, cause: Cause) -> None:
        for attempt in tuple(self.slots.attempts.values()):
            attempt.end(cause)

    def _on_control(self, message: dict[str, Any]) -> None:
        queue, action, job_id = message.get("queue"), message.get("action"), message.get("job_id")
        if action == "cancel" and queue == self.name and isinstance(job_id, int):
            self._cancel(job_id)
        elif action == "metadata_changed" and queue == self.name:
            self._metadata_changed(message.get("metadata"))
        elif action in ("pause", "resume") and queue in (self.name, ALL_QUEUES):
            if self._tasks:
                self._set_paused(action == "pause")
            else:
                # The row is being read, and may be older or newer than this: read it again.
                self.look_again = True

    def _cancel(self, job_id: int) -> None:
        attempt = self.slots.attempts.get(job_id)
        if attempt is None:
            self.slots.cancel_early(job_id)
            return
        row = attempt.row
        self.client.logger.info(
            "job %s (%s) is cancelled remotely", row.id, row.kind, extra=job_fields(row)
        )
        attempt.end(Cause.REMOTE)

    def _set_paused(self, paused: bool, row: QueueRow | None = None) -> None:
        if paused == self.paused:
            return
        self.fetcher.paused = paused
        if not paused:
            self.wake()
        kind = EventKind.QUEUE_PAUSED if paused else EventKind.QUEUE_RESUMED
        row = row or self._row("{}", self.client.clock() if paused else None)
        self.client.events.publish(Event(kind=kind, queue=row))

    def _metadata_changed(self, metadata: object) -> None:
        if not isinstance(metadata, dict):
            return
        row = self._row(write_json(metadata), None)
        for chooser in self._choosers:
            chooser.learn(row)

    def _row(self, metadata: str, paused_at: datetime | None) -> QueueRow:
        return QueueRow(
            name=self.name,
            created_at=None,
            metadata=JsonText(text=metadata, size=len(metadata)),
            paused_at=paused_at,
            updated_at=None,
        )
