"""A child process that works jobs one at a time: its main function, from start to end.

The main thread works jobs, so that they can use signal handlers and alarms. Another thread receives
messages of the client, and ends the process at once when the client has ended.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import datetime
from inspect import isawaitable
from queue import SimpleQueue
from time import process_time_ns
from typing import Any

from riverui.domain.jobs import JobRow
from riverui.engine.process_memory import resident_bytes
from riverui.engine.work import django_connections
from riverui.engine.work.attempt import Attempt, Cause, running
from riverui.engine.work.processes import messages, transfer
from riverui.engine.work.processes.child_logging import send_records
from riverui.engine.work.progress import Progress
from riverui.engine.work.worker import Job
from riverui.ipc.connection import Connection

_PR_SET_PDEATHSIG = 1
"""Linux's option of prctl: the signal to send when the parent ends; from <sys/prctl.h>."""
_OOM_SCORE = "500"
"""Thousandths of the system's memory that Linux adds to this process's when memory runs out, so
that it kills this process before its client.
"""


def main(fd: int, parent: int) -> None:
    """Work the jobs that come through the socket `fd`, as long as the process `parent` runs."""
    _die_with(parent)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)
    Child(fd).serve()


class Child:
    """The state of the child process."""

    def __init__(self, fd: int) -> None:
        self._at_work: ChildAttempt | None = None
        self._connection: Connection[messages.Order] = Connection(
            os.fdopen(fd, "rb"), os.fdopen(fd, "wb"), messages.Order
        )
        self._fd = fd
        self._forked = False
        """Whether this is a copy of the child, forked by a job."""
        self._inbox: SimpleQueue[tuple[messages.Assignment, ChildAttempt] | None] = SimpleQueue()
        self._measures_memory = False
        self._terminated = False
        """Whether the client has asked it to end in the middle of a job."""
        self._works: dict[int, transfer.LoadedWork] = {}

    def serve(self) -> None:
        """Work jobs until the client sends no more."""
        signal.signal(signal.SIGTERM, self._terminate)
        setup = self._connection.receive()
        if not isinstance(setup, messages.Setup):
            return
        self._set_up(setup)
        threading.Thread(target=self._listen, name="riverui-listener", daemon=True).start()
        os.register_at_fork(after_in_child=self._become_a_copy)
        self.send(messages.Ready())
        while (given := self._inbox.get()) is not None:
            copy_context().run(self._work, *given)
            self._at_work = None
            with suppress(Exception):
                sys.stdout.flush()
            if self._forked:
                os._exit(0)
            # Not kept while waiting for the next one, as it may be large.
            del given

    def send(self, report: messages.Report) -> None:
        """Send a report; ValueError if it is too large. Forked copies of the process send
        nothing.
        """
        if not self._forked:
            self._connection.send(report)

    def _set_up(self, setup: messages.Setup) -> None:
        sys.path[:] = setup.path
        self._measures_memory = setup.measures_memory
        with suppress(Exception):
            faulthandler.enable()
        send_records(setup, self.send)
        if setup.uses_django:
            import django

            django.setup()

    def _listen(self) -> None:
        """Receive messages of the client."""
        with suppress(OSError):
            while (order := self._connection.receive()) is not None:
                attempt = self._at_work
                if isinstance(order, messages.Assignment):
                    attempt = self._at_work = ChildAttempt(pickle.loads(order.row), self.send)  # noqa: S301 - the client has made it
                    attempt.ephemeral = order.ephemeral
                    self._inbox.put((order, attempt))
                elif isinstance(order, messages.Ask) and attempt and attempt.row.id == order.job_id:
                    attempt.end(Cause(order.cause))
                elif isinstance(order, messages.Terminate):
                    self._terminated = True
                    # Not to the whole process: another thread might receive it, while the main one
                    # sleeps on.
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        if self._at_work is not None:
            # Results could not be reported, and another client may work the job by now.
            os._exit(1)
        self._inbox.put(None)

    def _work(self, given: messages.Assignment, attempt: ChildAttempt) -> None:
        failure: messages.Failure | None = None
        began = process_time_ns()
        try:
            if given.worker is not None:
                self._works[given.key] = transfer.loaded(given.worker)
                if attempt.asked_to_end:
                    raise asyncio.CancelledError
                self.send(messages.Begun(given.job_id))
            began = process_time_ns()
            running.set(attempt)
            with transfer.traced(given.trace_context):
                self._perform(self._works[given.key], attempt)
        except BaseException as error:
            failure = transfer.failure_of(error)
            if self._terminated:
                self.send(messages.Interrupted(given.job_id, failure.trace))
                raise
        attempt.done = True
        # An error of its connections is not the job's: the next one will get it.
        with suppress(Exception):
            django_connections.close_old()
        memory = resident_bytes() if self._measures_memory else None
        self.send(messages.Ended(given.job_id, failure, process_time_ns() - began, memory))

    def _perform(self, work: transfer.LoadedWork, attempt: ChildAttempt) -> None:
        django_connections.close_old()
        attempt.job = Job(attempt.row, work.decode(attempt.row.args))
        result = work.run(attempt.job)
        if isawaitable(result):
            if hasattr(result, "close"):
                result.close()
            raise TypeError(
                "This work is asynchronous: a process of its own is for plain functions."
            )
        if attempt.progress is not None and (error := attempt.progress.unfinished()) is not None:
            raise error

    def _become_a_copy(self) -> None:
        """Drop what belongs to the process from which this one was forked."""
        self._forked = True
        with suppress(OSError):
            os.close(self._fd)

    def _terminate(self, *_: object) -> None:
        # A service manager such as systemd stops all processes of a service: this one continues
        # until its client says otherwise.
        if self._terminated:
            # Runs `with` and `finally` blocks before the process ends.
            raise SystemExit(128 + signal.SIGTERM)


class ChildAttempt(Attempt):
    """One running job in a child. Changes are sent to the client at once, so that they survive if
    the child is killed.
    """

    __slots__ = ("_send",)

    def __init__(self, row: JobRow, send: Callable[[messages.Report], None]) -> None:
        super().__init__(row, None, _NO_SLOTS)
        self._send = send

    def update(self, key: str, text: str) -> None:
        """Set a key of the job's metadata, in the child and in the client."""
        self._send(messages.Updated(self.row.id, key, text))
        super().update(key, text)

    def complete_at(self, now: datetime) -> None:
        """Record the job's completion, in the child and in the client."""
        self._send(messages.Completed(self.row.id, now))
        super().complete_at(now)

    def new_progress(self) -> Progress:
        """Return the progress before the first step of this attempt."""
        progress = _ChildProgress(self.row, self._send)
        progress.send()
        return progress


class _ChildProgress(Progress):
    """The progress of a resumable job; sent to the client after each step."""

    def __init__(self, row: JobRow, send: Callable[[messages.Report], None]) -> None:
        super().__init__(row.metadata)
        self._job_id = row.id
        self._send = send

    @contextmanager
    def within(self, name: str, *, cursor: bool = False) -> Iterator[None]:
        """Run a step in the block, and send the progress after it."""
        with super().within(name, cursor=cursor):
            yield
        self.send()

    def set_cursor(self, cursor: Any) -> None:
        """Set the cursor of the running step."""
        super().set_cursor(cursor)
        self.send()

    def send(self) -> None:
        """Send the progress to keep if this attempt fails now."""
        updates: dict[str, str] = {}
        self.keep(updates.__setitem__)
        self._send(messages.Progressed(self._job_id, updates))


class _NoSlots:
    """Ignores slots, which the client counts."""

    def release(self, attempt: Attempt) -> None:
        """Do nothing."""

    def stuck(self, attempt: Attempt) -> None:
        """Do nothing."""


_NO_SLOTS = _NoSlots()


def _die_with(parent: int) -> None:
    """Have Linux kill this process when its parent ends; on other systems the closed channel ends
    it.
    """
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
