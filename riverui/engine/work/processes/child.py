"""A child process that works jobs one at a time: what runs in it, from its start to its end.

The main thread works jobs, so that signal handlers and alarms are theirs to use; another one hears
what the client says, and ends the process at once when there is no client any more.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from contextvars import copy_context
from inspect import isawaitable
from queue import SimpleQueue
from typing import Any

from riverui.engine.process_memory import resident_bytes
from riverui.engine.work import django_connections
from riverui.engine.work.attempt import Cause, running
from riverui.engine.work.processes import trace_context
from riverui.engine.work.processes.child_attempt import ChildAttempt
from riverui.engine.work.processes.child_logging import send_records
from riverui.engine.work.processes.failures import failure_of
from riverui.engine.work.processes.messages import (
    Ask,
    Assignment,
    Ended,
    Failure,
    Interrupted,
    Load,
    Loaded,
    Ready,
    Report,
    Setup,
    Terminate,
    read_order,
    report_frame,
)
from riverui.engine.work.processes.references import LoadedWork, loaded
from riverui.engine.work.worker import Job

_PR_SET_PDEATHSIG = 1
"""Linux's number for asking to be killed when the parent is gone."""

_OOM_SCORE = "500"
"""Thousandths of the system's memory that are added to what this process holds."""


def main(fd: int, parent: int) -> None:
    """Work jobs that come through the socket `fd`, as long as the process `parent` lives."""
    _die_with(parent)
    _be_first_to_go()
    Child(socket.socket(fileno=fd)).serve()


class Child:
    """This process, as the client's child."""

    def __init__(self, connection: socket.socket) -> None:
        self._at_work: ChildAttempt | None = None
        self._connection = connection
        self._forked = False
        """Whether this is a copy of the child, made by a job."""
        self._inbox: SimpleQueue[tuple[Assignment, ChildAttempt] | Load | None] = SimpleQueue()
        self._measures_memory = False
        self._sending = threading.Lock()
        self._terminated = False
        """Whether its client has told it to end in the middle of a job."""
        self._works: dict[int, LoadedWork] = {}

    def serve(self) -> None:
        """Work jobs until there are no more."""
        signal.signal(signal.SIGTERM, self._terminate)
        stream = self._connection.makefile("rb")
        setup = read_order(stream.read)
        if not isinstance(setup, Setup):
            return
        self._set_up(setup)
        threading.Thread(
            target=self._listen, args=(stream.read,), name="riverui-listener", daemon=True
        ).start()
        os.register_at_fork(after_in_child=self._become_a_copy)
        self.tell(Ready())
        while (given := self._inbox.get()) is not None:
            if isinstance(given, Load):
                self._load(given)
            else:
                copy_context().run(self._work, *given)
                self._at_work = None
            with suppress(Exception):
                sys.stdout.flush()
            if self._forked:
                os._exit(0)
            # Not kept while waiting for the next one: it may hold much.
            del given

    def tell(self, report: Report) -> None:
        """Send a report; ValueError for one that is too large. Copies of the process tell
        nothing.
        """
        if self._forked:
            return
        frame = report_frame(report)
        with self._sending:
            self._connection.sendall(frame)

    def _set_up(self, setup: Setup) -> None:
        sys.path[:] = setup.path
        self._measures_memory = setup.measures_memory
        with suppress(Exception):
            faulthandler.enable()
        send_records(setup, self.tell)
        if setup.uses_django:
            import django

            django.setup()

    def _listen(self, read: Any) -> None:
        """Take in what the client says."""
        attempt: ChildAttempt | None = None
        with suppress(OSError):
            while (order := read_order(read)) is not None:
                if isinstance(order, Load):
                    self._inbox.put(order)
                elif isinstance(order, Assignment):
                    attempt = self._at_work = ChildAttempt(order.row, self.tell)
                    attempt.ephemeral = order.ephemeral
                    self._inbox.put((order, attempt))
                elif isinstance(order, Ask) and attempt and attempt.row.id == order.job_id:
                    attempt.end(Cause(order.cause))
                elif isinstance(order, Terminate):
                    self._terminated = True
                    os.kill(os.getpid(), signal.SIGTERM)
        if self._at_work is not None:
            # Nobody would hear of what it still does, and another may be doing it by now.
            os._exit(1)
        self._inbox.put(None)

    def _load(self, given: Load) -> None:
        failure: Failure | None = None
        try:
            self._works[given.key] = loaded(given.pickled)
        except BaseException as error:
            if self._terminated:
                raise
            failure = failure_of(error)
        self.tell(Loaded(given.key, failure))

    def _work(self, given: Assignment, attempt: ChildAttempt) -> None:
        running.set(attempt)
        failure: Failure | None = None
        try:
            with trace_context.attached(given.trace_context):
                self._perform(given, attempt)
        except BaseException as error:
            failure = failure_of(error)
            if self._terminated:
                self.tell(Interrupted(attempt.row.id, failure.trace))
                raise
        attempt.done = True
        # What it did counts, whatever becomes of its connections: the next job finds out.
        with suppress(Exception):
            django_connections.close_old()
        memory = resident_bytes() if self._measures_memory else None
        self.tell(Ended(attempt.row.id, failure, memory))

    def _perform(self, given: Assignment, attempt: ChildAttempt) -> None:
        work = self._works[given.key]
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
        """Let go of what belongs to the process from which this one was forked."""
        self._forked = True
        with suppress(OSError):
            os.close(self._connection.fileno())

    def _terminate(self, *_: object) -> None:
        # Whoever stops a whole service, as systemd does, sends it to each process: but this one
        # goes on until its client says otherwise.
        if self._terminated:
            # What `with` and `finally` have to do is done.
            raise SystemExit(128 + signal.SIGTERM)


def _be_first_to_go() -> None:
    """Have Linux choose this process rather than its client where memory runs out."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)


def _die_with(parent: int) -> None:
    """Have the system kill this process when its parent is gone, where it can; else the end of the
    connection tells.
    """
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
