"""The jobs of River's conformance suite, and what their client observes."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Protocol

import msgspec

from riverui import (
    Job,
    JobCancel,
    JobRow,
    JobSnooze,
    Plugin,
    Worker,
    job_complete_tx,
    metadata_set,
    record_output,
    resumable_set_cursor,
    resumable_step,
    resumable_step_cursor,
)

ECHO = "conformance_echo"


class Echo(msgspec.Struct, kw_only=True):
    """Args of every job that the suite inserts."""

    kind: ClassVar[str] = ECHO

    behavior: str = ""
    duration_ms: int = 0
    message: str = ""


@dataclass(kw_only=True, slots=True)
class Stats:
    """What a working client has observed since its start."""

    begun: set[int] = field(default_factory=set)
    cancelled: list[int] = field(default_factory=list)
    error_handler_calls: int = 0
    events: list[str] = field(default_factory=list)
    periodic_starts: int = 0
    resumable_first_runs: int = 0
    resumable_second_runs: int = 0
    stuck_jobs: int = 0
    trace: list[str] = field(default_factory=list)

    def snapshot(self) -> dict[str, Any]:
        """Return them as the contract names them."""
        # A job that was cancelled before its start never reaches its worker.
        unbegun = [job_id for job_id in self.cancelled if job_id not in self.begun]
        return {
            "cancelled_at_start": len(unbegun),
            "error_handler_calls": self.error_handler_calls,
            "events": self.events,
            "periodic_starts": self.periodic_starts,
            "resumable_first_runs": self.resumable_first_runs,
            "resumable_second_runs": self.resumable_second_runs,
            "stuck_jobs": self.stuck_jobs,
            "trace": self.trace,
        }


class Tracer(Plugin):
    """Records the order in which hooks and middleware run."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def insert_begin(self, request: object) -> None:
        self._stats.trace.append("hook:insert_begin")

    async def insert_many(self, requests: Any, do_inner: Any) -> Any:
        self._stats.trace.append("middleware:insert_before")
        results = await do_inner(requests)
        self._stats.trace.append("middleware:insert_after")
        return results

    def periodic_jobs_start(self) -> None:
        self._stats.periodic_starts += 1
        self._stats.trace.append("hook:periodic_start")

    def work_begin(self, job: JobRow) -> None:
        self._stats.trace.append("hook:work_begin")

    async def work(self, job: JobRow, do_inner: Any) -> None:
        self._stats.trace.append("middleware:work_before")
        try:
            await do_inner()
        finally:
            self._stats.trace.append("middleware:work_after")

    def work_end(self, job: JobRow, error: BaseException | None) -> BaseException | None:
        self._stats.trace.append("hook:work_end")
        return error


def failure(text: str) -> Exception:
    """Return an exception whose text in `errors` is this: riverui puts an exception's class before
    its message, which Go's errors do not have, so the class has the text as its name.
    """
    error: Exception = type(text, (Exception,), {})()
    return error


class Process(Protocol):
    """What a job needs of its process."""

    def barrier(self, name: str) -> asyncio.Event:
        """Return a barrier by name."""
        ...

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """Lend a connection of the pool."""
        ...


class EchoWorker(Worker[Echo]):
    """Does what the job's behavior says."""

    def __init__(self, adapter: Process, stats: Stats) -> None:
        self._adapter = adapter
        self._stats = stats

    async def work(self, job: Job[Echo]) -> None:
        """Work the job."""
        args, stats = job.args, self._stats
        stats.begun.add(job.id)
        match args.behavior:
            case "barrier_output" | "barrier_wait":
                await self._adapter.barrier(args.message).wait()
                if args.behavior == "barrier_output":
                    record_output({"race": "worker"})
            case "cancel":
                raise JobCancel("cancelled by conformance worker")
            case "cancel_error" | "cancel_panic":
                with suppress(asyncio.CancelledError):
                    await _forever()
                raise failure("conformance failure after cancellation")
            case "cooperative_cancel":
                await _forever()
            case "discard":
                raise failure("conformance discard")
            case "error":
                raise failure("conformance retryable error")
            case "ignored_cancel":
                while True:
                    with suppress(asyncio.CancelledError):
                        await _forever()
            case "output":
                record_output({"message": args.message})
            case "panic":
                raise failure("conformance worker panic")
            case "resumable" | "resumable_duplicate":
                await self._resumable(job, "first" if "duplicate" in args.behavior else "second")
            case "resumable_cursor":
                await self._resumable_cursor(job)
            case "sleep":
                await asyncio.sleep(args.duration_ms / 1000)
            case "snooze_once" | "snooze_then_cancel":
                if "snoozes" not in job.metadata_dict:
                    raise JobSnooze(timedelta(milliseconds=max(args.duration_ms, 1)))
                if args.behavior == "snooze_then_cancel":
                    await _forever()
            case "transactional_complete":
                metadata_set("transactional_completion", True)
                async with self._adapter.connection() as connection, connection.transaction():
                    await job_complete_tx(connection, job)

    async def _resumable(self, job: Job[Echo], second: str) -> None:
        def run_first() -> None:
            self._stats.resumable_first_runs += 1

        def run_second() -> None:
            self._stats.resumable_second_runs += 1
            if job.attempt == 1:
                raise failure("fail second resumable step once")

        await resumable_step("first", run_first)
        await resumable_step(second, run_second)

    async def _resumable_cursor(self, job: Job[Echo]) -> None:
        def second(cursor: int) -> None:
            if job.attempt == 1:
                resumable_set_cursor(7)
                raise failure("retry with cursor")
            if cursor != 7:
                raise failure(f"expected cursor 7, got {cursor}")
            metadata_set("cursor_observed", cursor)

        def third() -> None:
            if job.attempt == 2:
                raise failure("retry after consuming cursor")

        await resumable_step("first", lambda: metadata_set("first_attempt", job.attempt))
        await resumable_step_cursor("second", second, start=0)
        await resumable_step("third", third)


async def _forever() -> None:
    await asyncio.Event().wait()
