"""The kinds of the Go program in Python, and some for what only Python can do wrong."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import msgspec

from riverui.engine.work.context import metadata_set, record_output
from riverui.engine.work.resumable import (
    resumable_set_cursor,
    resumable_step,
    resumable_step_cursor,
)
from riverui.engine.work.worker import Job, JobCancel, JobSnooze, Worker
from riverui.engine.work.workers import Workers

logger = logging.getLogger("tests.kinds")


class Args(msgspec.Struct, omit_defaults=True):
    """What every kind takes, as in `kinds.go`, in the same order."""

    kind: ClassVar[str]

    failures: int = 0
    lines: int = 0
    message: str = ""
    n: int = 0
    panic: bool = False
    retry_in: float = 0
    seconds: float = 0
    stubborn: bool = False
    times: int = 0
    value: Any = None
    # Ours alone:
    payload: str = ""
    """noop: weight."""


class JsonArgs:
    """Any kind with any args, by the official client's protocol."""

    def __init__(self, kind: str, value: Any) -> None:
        self.kind = kind
        self._value = value

    def to_json(self) -> str:
        """Return the args, compact, as Go writes them."""
        return json.dumps(self._value, ensure_ascii=False, separators=(",", ":"))


class Bench:
    """Where the workers work: whom they tell, and what they wait for."""

    def __init__(
        self,
        *,
        say: Callable[..., None],
        journal: str | None,
        quiet: bool,
        locks: str | None = None,
    ) -> None:
        self.quiet = quiet
        self._locks = os.open(locks, os.O_CREAT | os.O_RDWR) if locks else None
        self._journal = (
            os.open(journal, os.O_APPEND | os.O_CREAT | os.O_WRONLY) if journal else None
        )
        self._released: dict[int, asyncio.Event] = {}
        self._say = say

    def workers(self, kinds: Iterable[str]) -> Workers:
        """Return workers for these kinds."""
        workers = Workers()
        for kind in kinds:
            workers.add(KINDS[kind](self), args_type=ARGS[kind])
        return workers

    def say(self, event: str, job: Job[Args], **fields: Any) -> None:
        """Tell what happens to a job."""
        if not self.quiet:
            self._say(
                event, id=job.id, kind=job.kind, attempt=job.attempt, queue=job.queue, **fields
            )

    def note(self, what: str, job: Job[Args]) -> None:
        """Add a line to the journal: what a job did survives the process."""
        if self._journal is not None:
            os.write(self._journal, f"{what} {job.id} {job.attempt}\n".encode())

    @contextmanager
    def alone(self, job: Job[Args]) -> Iterator[None]:
        """Note `twice` where another process is at the job right now, as far as they share a file
        of locks; a process that dies has none.
        """
        if self._locks is None:
            yield
            return
        try:
            fcntl.lockf(self._locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, job.id)
        except OSError:
            self.note("twice", job)
        try:
            yield
        finally:
            fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, job.id)

    def released(self, id: int) -> asyncio.Event:
        """Set when the test lets a blocked job go on."""
        return self._released.setdefault(id, asyncio.Event())

    def release(self, id: int) -> None:
        """Let a blocked job go on."""
        self.released(id).set()


class Working(Worker[Args]):
    """Tells of each start."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    async def work(self, job: Job[Args]) -> None:
        """Do the job."""
        self.bench.say("started", job, message=job.row.args)
        await self.act(job, job.args)

    async def act(self, job: Job[Args], args: Args) -> None:
        """Do what its kind does."""
        raise NotImplementedError

    def next_retry(self, job: Job[Args]) -> datetime | None:
        """Return when to try again, as its args say."""
        return (
            datetime.now(UTC) + timedelta(seconds=job.args.retry_in) if job.args.retry_in else None
        )


class Block(Working):
    """Waits until it is released; stubborn, even when it is cancelled."""

    async def act(self, job: Job[Args], args: Args) -> None:
        released = self.bench.released(job.id)
        while True:
            try:
                await released.wait()
            except asyncio.CancelledError:
                self.bench.say("interrupted", job)
                if not args.stubborn:
                    raise
            else:
                return


class Cancel(Working):
    """Cancels itself."""

    async def act(self, job: Job[Args], args: Args) -> None:
        raise JobCancel(args.message)


class Fail(Working):
    """Fails; a panic is an exception like any other here."""

    async def act(self, job: Job[Args], args: Args) -> None:
        raise RuntimeError(args.message)


class Flaky(Working):
    """Fails a few times."""

    async def act(self, job: Job[Args], args: Args) -> None:
        if len(job.errors) < args.failures:
            raise RuntimeError(f"{args.message} (attempt {job.attempt})")


class Log(Working):
    """Logs, and fails a few times."""

    async def act(self, job: Job[Args], args: Args) -> None:
        for line in range(args.lines):
            logger.warning("%s line=%d attempt=%d", args.message, line + 1, job.attempt)
        if len(job.errors) < args.failures:
            raise RuntimeError("failed after logging")


class Metadata(Working):
    """Sets metadata."""

    async def act(self, job: Job[Args], args: Args) -> None:
        for key, value in args.value.items():
            metadata_set(key, value)


class Noop(Working):
    """Does nothing."""

    async def act(self, job: Job[Args], args: Args) -> None:
        pass


class Output(Working):
    """Records an output."""

    async def act(self, job: Job[Args], args: Args) -> None:
        record_output(args.value)


class Sleep(Working):
    """Sleeps."""

    async def act(self, job: Job[Args], args: Args) -> None:
        try:
            await asyncio.sleep(args.seconds)
        except asyncio.CancelledError:
            self.bench.say("interrupted", job)
            raise


class Snooze(Working):
    """Snoozes a few times."""

    async def act(self, job: Job[Args], args: Args) -> None:
        if snoozes(job) < args.times:
            raise JobSnooze(timedelta(seconds=args.seconds))


class Soak(Working):
    """Fails, snoozes and ends as its args say, and keeps a journal of it."""

    async def act(self, job: Job[Args], args: Args) -> None:
        with self.bench.alone(job):
            await self._act(job, args)

    async def _act(self, job: Job[Args], args: Args) -> None:
        self.bench.note("start", job)
        if args.seconds:
            try:
                await asyncio.sleep(args.seconds)
            except asyncio.CancelledError:
                self.bench.note("stop", job)
                raise
        if snoozes(job) < args.times:
            self.bench.note("snooze", job)
            raise JobSnooze(timedelta(0))
        failed = sum(error.error.endswith("on purpose") for error in job.errors)
        if failed < args.failures or args.message == "discarded":
            self.bench.note("fail", job)
            raise RuntimeError("on purpose")
        self.bench.note("end", job)
        if args.message == "cancelled":
            raise JobCancel("on purpose")


class Steps(Working):
    """Takes three resumable steps; the second walks to 4 and fails on its way as often as it is
    told to.
    """

    async def act(self, job: Job[Args], args: Args) -> None:
        def step(name: str) -> None:
            self.bench.say("step", job, message=name)

        async def walk(cursor: int) -> None:
            for at in range(cursor, 4):
                step(f"second {at}")
                resumable_set_cursor(at + 1)
                if len(job.errors) < args.failures and at >= job.attempt:
                    raise RuntimeError("tripped")

        await resumable_step("first", lambda: step("first"))
        await resumable_step_cursor("second", walk, start=0)
        await resumable_step("third", lambda: step("third"))


class Exit(Working):
    """Asks the interpreter to exit."""

    async def act(self, job: Job[Args], args: Args) -> None:
        raise SystemExit(3)


class Hog(Working):
    """Blocks the event loop."""

    async def act(self, job: Job[Args], args: Args) -> None:
        time.sleep(args.seconds)  # noqa: ASYNC251 - that is the point


class ThreadWorking(Working):
    """Works in a thread."""

    def work(self, job: Job[Args]) -> None:  # type: ignore[override]
        """Do the job."""
        self.bench.say("started", job)
        self.act_here(job, job.args)

    def act_here(self, job: Job[Args], args: Args) -> None:
        """Do what its kind does."""
        raise NotImplementedError


class ThreadExit(ThreadWorking):
    """Asks its thread to exit."""

    def act_here(self, job: Job[Args], args: Args) -> None:
        raise SystemExit(3)


class ThreadSleep(ThreadWorking):
    """Sleeps, deaf to cancellation as threads are."""

    def act_here(self, job: Job[Args], args: Args) -> None:
        time.sleep(args.seconds)


KINDS: dict[str, type[Working]] = {
    "benchmark": Noop,  # as `river bench` calls its own
    "block": Block,
    "cancel": Cancel,
    "exit": Exit,
    "fail": Fail,
    "flaky": Flaky,
    "hog": Hog,
    "log": Log,
    "metadata": Metadata,
    "noop": Noop,
    "output": Output,
    "sleep": Sleep,
    "snooze": Snooze,
    "soak": Soak,
    "steps": Steps,
    "thread_exit": ThreadExit,
    "thread_sleep": ThreadSleep,
}
ARGS: dict[str, type[Any]] = {
    name: msgspec.defstruct(name, [], bases=(Args,), namespace={"kind": name}, omit_defaults=True)
    for name in KINDS
}


def make_args(kind: str, told: dict[str, Any]) -> Args:
    """Return the args of a kind by name."""
    args: Args = msgspec.convert(told, ARGS[kind])
    return args


def snoozes(job: Job[Args]) -> int:
    """Return how often the job was snoozed."""
    return int(json.loads(job.metadata).get("snoozes", 0))
