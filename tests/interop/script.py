"""How an attempt ends, told alike to Go's executor and to ours."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from riverui.domain.jobs import JobState
from riverui.engine.config import NO_LIMIT, ClientConfig
from riverui.engine.events import EventKind
from riverui.engine.work.attempt import Attempt, Cause, running
from riverui.engine.work.context import metadata_set, record_output
from riverui.engine.work.deadlines import Deadlines
from riverui.engine.work.job_executor import JobExecutor
from riverui.engine.work.outcome import Outcome
from riverui.engine.work.threads import WorkerThreads
from riverui.engine.work.worker import Job, JobCancel, JobSnooze, Worker
from riverui.engine.work.workers import Workers
from riverui.storage.postgres.driver import PostgresDriver

_EVENTS = {JobState.CANCELLED: EventKind.JOB_CANCELLED}
"""What the row says where that is more than the outcome wanted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """What a worker does; spans are seconds from now."""

    do: str
    """complete, cancel, error, panic, remote_cancel or snooze."""
    message: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    output: Any = None
    retry_at: float | None = None
    """The worker's own `next_retry`; None leaves it to the client."""
    retry_in: float = 1.0
    """The client's retry policy."""
    seconds: float = 0.0
    """How long to snooze."""

    def for_go(self, now: datetime) -> dict[str, Any]:
        """Return the script as `twin.go` takes it."""
        told = {
            "do": self.do,
            "message": self.message,
            "metadata": self.metadata,
            "output": self.output,
            "retry_in": self.retry_in,
            "seconds": self.seconds,
        }
        if self.retry_at is not None:
            told["retry_at"] = (now + timedelta(seconds=self.retry_at)).isoformat()
        return told


class Scripts:
    """Works running jobs by script through our executor, and writes each outcome at once."""

    def __init__(self, driver: PostgresDriver, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._driver = driver
        self._script = Script(do="complete")
        self._ended: Outcome | None = None
        self._over = asyncio.Event()
        workers = Workers()
        for kind in ("alpha", "beta"):
            workers.add(
                _Scripted(self), args_type=msgspec.defstruct("Args", [], namespace={"kind": kind})
            )
        config = ClientConfig(
            workers=workers,
            job_timeout=NO_LIMIT,
            retry_policy=lambda _: clock() + timedelta(seconds=self._script.retry_in),
        )
        logger = logging.getLogger("tests.script")
        self._executor = JobExecutor(
            config,
            config.extensions,
            clock=clock,
            completer=self,
            deadlines=Deadlines(60, lambda _: None),
            logger=logger,
            logs=None,
            threads=WorkerThreads(1),
        )

    async def execute(self, id: int, script: Script) -> str:
        """Return the kind of event that the attempt ended with."""
        self._script = script
        self._ended = None
        async with self._driver.autocommit() as executor:
            row = await executor.jobs.row_get(id)
            assert row is not None
            self._over = asyncio.Event()
            attempt = self._executor.attempt(row, self)
            self._executor.start([attempt])
            await self._over.wait()
            if self._ended is None:
                assert await executor.work.complete_many([id], [attempt.ended_at]) == [id]
                return EventKind.JOB_COMPLETED
            (row,) = await executor.work.set_state_many([self._ended.params])
            return _EVENTS.get(row.state, self._ended.event)

    async def room(self) -> None:
        """There is always room."""

    async def perform(self) -> None:
        """Do what the script says, inside of the job."""
        script = self._script
        for key, value in script.metadata.items():
            metadata_set(key, value)
        if script.output is not None:
            record_output(script.output)
        match script.do:
            case "cancel":
                raise JobCancel(script.message)
            case "error" | "panic":
                raise RuntimeError(script.message)
            case "remote_cancel":
                asyncio.get_running_loop().call_soon(running.get().end, Cause.REMOTE)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise RuntimeError(script.message) from None
            case "snooze":
                raise JobSnooze(timedelta(seconds=script.seconds))

    def next_retry(self) -> datetime | None:
        """Return the worker's own next retry."""
        seconds = self._script.retry_at
        return None if seconds is None else self._clock() + timedelta(seconds=seconds)

    # What the executor asks of its completer and its producer.

    full = False

    def succeed(self, attempt: Attempt) -> None:
        """Note that it went well."""

    def settle(self, attempt: Attempt, outcome: Outcome) -> None:
        """Note that it ended in another way."""
        self._ended = outcome

    def release(self, attempt: Attempt) -> None:
        """Note that it is over."""
        self._over.set()

    def stuck(self, attempt: Attempt) -> None:
        """Never."""


class _Scripted(Worker[Any]):
    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def work(self, job: Job[Any]) -> None:
        await self._scripts.perform()

    def next_retry(self, job: Job[Any]) -> datetime | None:
        return self._scripts.next_retry()
