"""A client in a process of its own that works tasks of workflows, and writes down what it does.

python -m tests.faults.workflow_worker '{"url": …, "id": …, "journal": …, "slots": …}'
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from riverui import Client, ClientConfig, Job, QueueConfig, Workers

BEAT = 0.5
"""Seconds between two signs of life: who gives none for some two seconds is thought dead."""


@dataclass
class Act:
    """The args of a task: how it is to end."""

    kind: ClassVar[str] = "act"
    outcome: str = "completed"
    seconds: float = 0.0


class Book:
    """What happened to attempts, when: lines of `what job attempt nanoseconds`."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, what: str, job: Job[Any]) -> None:
        """Write a line that outlives this process."""
        os.write(self._file, f"{what} {job.id} {job.attempt} {time.time_ns()}\n".encode())


def workers(book: Book) -> Workers:
    """Return what works tasks, and notes when each begins and ends."""
    found = Workers()

    @found.work(Act)
    async def act(job: Job[Act]) -> None:
        book.note("start", job)
        try:
            await asyncio.sleep(job.args.seconds)
        except asyncio.CancelledError:
            book.note("stop", job)
            raise
        if job.args.outcome == "discarded":
            raise ArithmeticError("as planned")
        if job.args.outcome == "flaky" and not job.row.errors:
            raise ArithmeticError("as planned, once")
        book.note("end", job)

    return found


def config(id: str, book: Book, queues: dict[str, int]) -> ClientConfig:
    """Return how such a client is set up."""
    return ClientConfig(
        fetch_poll_interval=timedelta(seconds=0.2),
        heartbeat_interval=timedelta(seconds=BEAT),
        id=id,
        job_timeout=timedelta(seconds=4),
        log_jobs=False,
        queues={name: QueueConfig(max_workers=slots) for name, slots in queues.items()},
        rescue_stuck_jobs_after=timedelta(seconds=6),
        retry_policy=lambda _: datetime.now(UTC),
        workers=workers(book),
    )


async def run(told: dict[str, Any]) -> None:
    """Work until the standard input ends."""
    client = Client(told["url"], config(told["id"], Book(told["journal"]), told["queues"]))
    await client.start()
    print("started", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await client.stop()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
