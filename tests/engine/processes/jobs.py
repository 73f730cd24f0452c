"""The work of these tests: child processes import it from here."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import riverui
from riverui import Job, JobCancel, JobSnooze, Worker

LOGGER = logging.getLogger("tests.isolated")


@dataclass
class Act:
    """Which of the functions below is called, and the folder in which it meets its test."""

    kind: ClassVar[str] = "act"
    what: str = ""
    folder: str = ""
    value: Any = None


def act(job: Job[Act]) -> Any:
    """Call the function that the args name."""
    return globals()[job.args.what](job)


def note(job: Job[Act], name: str, what: Any = "") -> None:
    """Leave a file for the test: whole or not at all."""
    path = Path(job.args.folder, name)
    path.with_suffix(".new").write_text(json.dumps(what))
    path.with_suffix(".new").rename(path)


def wait(job: Job[Act], name: str) -> None:
    """Wait for a file of the test's."""
    while not Path(job.args.folder, name).exists():
        time.sleep(0.005)


def where(job: Job[Act]) -> None:
    riverui.record_output(
        {
            "args": job.args.value,
            "attempt": job.attempt,
            "current": riverui.current_job().id,
            "main": threading.current_thread() is threading.main_thread(),
            "parent": os.getppid(),
            "pid": os.getpid(),
            "stdin": sys.stdin.read(),
        }
    )


def until_told(job: Job[Act]) -> None:
    note(job, f"begun-{job.id}", os.getpid())
    wait(job, "go")
    riverui.record_output(os.getpid())


def until_asked(job: Job[Act]) -> None:
    note(job, f"begun-{job.id}", os.getpid())
    while True:
        riverui.raise_if_cancelled()
        time.sleep(0.005)


def deaf(job: Job[Act]) -> None:
    riverui.metadata_set("seen", job.args.value)
    try:
        note(job, f"begun-{job.id}", os.getpid())
        while True:
            time.sleep(60)
    finally:
        note(job, f"tidied-{job.id}")


def deaf_to_signals(job: Job[Act]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(job, f"begun-{job.id}", os.getpid())
    while True:
        time.sleep(60)


def with_a_program(job: Job[Act]) -> None:
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note(job, f"begun-{job.id}", program.pid)
    program.wait()


def segfault(job: Job[Act]) -> None:
    ctypes.string_at(0)


def leave(job: Job[Act]) -> None:
    os._exit(3)


def kill_itself(job: Job[Act]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write_garbage(job: Job[Act]) -> None:
    print("\0\xff garbage", flush=True)
    for fd in range(3, 64):
        try:
            os.write(fd, b"\0\0\0\x05garbage")
        except OSError:
            continue
    time.sleep(60)


def hang_up(job: Job[Act]) -> None:
    for fd in range(3, 64):
        try:
            socket.socket(fileno=fd).shutdown(socket.SHUT_RDWR)
        except OSError:
            continue
    time.sleep(60)


def fork(job: Job[Act]) -> None:
    """Make a copy of the process that logs, records and comes back from the job."""
    if (pid := os.fork()) == 0:
        LOGGER.warning("from the copy")
        riverui.record_output("from the copy")
        return
    riverui.record_output("from the job")
    os.waitpid(pid, 0)


class Poison(Exception):
    """Cannot be pickled, nor made without its argument."""

    def __init__(self, *, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.lock = threading.Lock()

    def __str__(self) -> str:
        return f"poison number {self.number} with \ud800 and {'x' * 10}"


class Silent(Exception):
    def __str__(self) -> str:
        raise KeyError("never mind")


class MyCancel(JobCancel):
    pass


def fail(job: Job[Act]) -> None:
    errors: dict[str, BaseException] = {
        "cancel": JobCancel("there is no such order"),
        "exit": SystemExit(5),
        "group": ExceptionGroup("both", [ValueError("a"), JobSnooze(timedelta(hours=2))]),
        "interrupt": KeyboardInterrupt(),
        "local": type("MadeHere", (ValueError,), {})("of this process"),
        "my_cancel": MyCancel("mine"),
        "os": FileNotFoundError(2, "No such thing", "/nowhere"),
        "poison": Poison(number=7),
        "silent": Silent(),
        "snooze": JobSnooze(timedelta(hours=1)),
        "stop": StopIteration("over"),
        "unicode": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"),
    }
    raise errors[job.args.value]


def log(job: Job[Act]) -> None:
    LOGGER.info("counting %d words", 3, extra={"words": 3})
    logging.getLogger("tests.other").debug("too low")
    try:
        raise ValueError("inner")
    except ValueError:
        LOGGER.exception("it went wrong")
    if job.args.value == "wait":
        until_told(job)


def log_much(job: Job[Act]) -> None:
    for number in range(job.args.value):
        LOGGER.info("line %d", number)


def steps(job: Job[Act]) -> None:
    def first() -> None:
        note(job, f"first-{job.attempt}")

    def second(cursor: int) -> None:
        for number in range(cursor, 4):
            riverui.resumable_set_cursor(number + 1)
            if number == 1:
                job.args.value == "die" and os._exit(1)
                raise ValueError("in the middle")
        riverui.record_output(cursor)

    riverui.resumable_step_sync("first", first)
    riverui.resumable_step_cursor_sync("second", second, start=0)


def large(job: Job[Act]) -> None:
    riverui.record_output(job.args.value * 200)


def too_large(job: Job[Act]) -> None:
    riverui.metadata_set("large", "x" * (129 * 1024 * 1024))


def hoard(job: Job[Act]) -> None:
    globals()["HOARD"] = bytearray(b"x") * job.args.value
    riverui.record_output(os.getpid())


def client(job: Job[Act]) -> None:
    riverui.client_from_context()


async def _later() -> None:
    pass


def a_coroutine(job: Job[Act]) -> Any:
    return _later()


def complete(job: Job[Act]) -> None:
    import psycopg

    river = riverui.SyncClient(job.args.value)
    with psycopg.connect(job.args.value) as connection:
        riverui.metadata_set("before", 1)
        river.job_complete_tx(connection, job)
    raise ValueError("after the commit")


class Counting(Worker[Act]):
    """Keeps a state, which each process has for itself."""

    isolation = "process"

    def __init__(self, start: int) -> None:
        self.count = start

    def timeout(self, job: Job[Act]) -> timedelta | None:
        return timedelta(minutes=1)

    def hard_timeout(self, job: Job[Act]) -> timedelta | None:
        return timedelta(seconds=job.args.value) if job.args.value else None

    def work(self, job: Job[Act]) -> None:
        self.count += 1
        riverui.record_output(self.count)
        if job.args.value:
            deaf(job)

    def next_retry(self, job: Job[Act]) -> datetime:
        return datetime(2100, 1, 1, tzinfo=UTC)


class WithLock(Counting):
    def __init__(self) -> None:
        super().__init__(0)
        self.lock = threading.Lock()


async def asynchronous(job: Job[Act]) -> None: ...


def trace(job: Job[Act]) -> None:
    from opentelemetry import trace as api

    riverui.record_output(api.format_trace_id(api.get_current_span().get_span_context().trace_id))


tasks = riverui.Workers()


@tasks.task(isolation="process", hard_timeout=timedelta(minutes=1), pass_job=True)
def add(job: Job[Any], first: int, second: int = 1) -> list[int]:
    """Return the sum, and where it was made."""
    return [first + second, job.id, os.getpid()]
