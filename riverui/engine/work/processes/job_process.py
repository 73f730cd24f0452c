"""One child process, as its client sees it: started, given one job after another, and ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from pathlib import Path
from typing import cast

from riverui.engine.work.attempt import Attempt
from riverui.engine.work.outcome import ProcessTrace
from riverui.engine.work.processes import child_logging, trace_context
from riverui.engine.work.processes.failures import error_of
from riverui.engine.work.processes.messages import (
    Ask,
    Assignment,
    Completed,
    Ended,
    Frames,
    Interrupted,
    Load,
    Loaded,
    Logged,
    Progressed,
    Ready,
    Report,
    Setup,
    Terminate,
    Updated,
    order_frame,
    read_report,
)
from riverui.engine.work.progress import Progress
from riverui.errors import JobProcessDied

_ROOT = str(Path(__file__).parents[4])
"""Where riverui itself is found."""
_REPORTS_AT_ONCE = 100
"""Reports of one child that are taken in before others have their turn: a job that logs in a loop
sends thousands a second.
"""
_LAST_WORDS_SECONDS = 0.5
"""How long the connection of a process that has ended is read: what it forked may keep it open."""
_FAREWELL_SECONDS = 10.0
"""How long a process that gets no more jobs may take to end, with what it does at exit."""
_LINGER_SECONDS = 1.0
"""How long a process may go on that has closed its connection."""


class JobProcess(asyncio.Protocol):
    """A child process and its connection."""

    def __init__(
        self,
        *,
        changed: Callable[[JobProcess], None],
        load_seconds: float,
        logger: logging.Logger,
    ) -> None:
        """Make one that is not started; `changed` is called when it becomes ready, and when it has
        ended.
        """
        self.ended = False
        self.jobs = 0
        """How many it has worked."""
        self.killed = False
        """Whether it was to be killed, for no fault of its own."""
        self.memory: int | None = None
        """Bytes that it held after its last job, where they are measured."""
        self.pid = 0
        self.ready = False
        self.retired = False
        """Whether it gets no more jobs."""
        self._call: _Call | None = None
        self._loading: asyncio.Future[Loaded] | None = None
        self._changed = changed
        self._closed = False
        """Whether its connection is."""
        self._code: int | None = None
        self._exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._frames = Frames()
        self._load_seconds = load_seconds
        self._loaded: set[int] = set()
        self._logger = logger
        self._loop = asyncio.get_running_loop()
        self._popen: subprocess.Popen[bytes] | None = None
        self._offence = ""
        """Why it was killed that did not behave."""
        self._transport: asyncio.Transport | None = None

    async def start(self, setup: Setup) -> None:
        """Start the process; `changed` tells when it is ready. OSError where it cannot be done.

        It is killed unless it is ready in time.
        """
        ours, theirs = socket.socketpair()
        try:
            self._popen = _launched(theirs.fileno())
            self.pid = self._popen.pid
            threading.Thread(
                target=self._await_exit, name=f"riverui-child-{self.pid}", daemon=True
            ).start()
            ours.setblocking(False)
            await self._loop.create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            ours.close()
            self.kill()
            raise
        finally:
            theirs.close()
        self._send(order_frame(setup))
        self._loop.call_later(self._load_seconds, self._check_ready)

    async def work(
        self, load: Load, attempt: Attempt, begun: Callable[[], None], asked: Callable[[], None]
    ) -> None:
        """Have a job worked, and raise what it raised.

        `begun` is called when it begins, `asked` each time that this task is cancelled, which asks
        the job to end. JobProcessDied where the process did not survive it.
        """
        self._call = call = _Call(attempt)
        self.jobs += 1
        try:
            if load.key not in self._loaded:
                await self._load(load, asked)
            context = trace_context.current()
            self._send(order_frame(Assignment(load.key, attempt.seen, attempt.ephemeral, context)))
            begun()
            while not call.over.done():
                try:
                    await asyncio.wait([call.over])
                except asyncio.CancelledError:
                    self._ask(attempt)
                    asked()
        finally:
            self._call = None
        if call.ended is None:
            died = JobProcessDied(self._last_words())
            if call.trace:
                died.__cause__ = ProcessTrace(call.trace)
            raise died
        if call.ended.failure is not None:
            raise error_of(call.ended.failure)

    async def _load(self, load: Load, asked: Callable[[], None]) -> None:
        """Have a worker loaded, and raise what its module raised."""
        self._loading = loading = self._loop.create_future()
        timer = self._loop.call_later(
            self._load_seconds, self._punish, f"did not load in {self._load_seconds:g} s"
        )
        self._send(order_frame(load))
        cancelled = False
        try:
            while not loading.done():
                try:
                    await asyncio.wait([loading])
                except asyncio.CancelledError:
                    cancelled = True
                    asked()
        finally:
            timer.cancel()
            self._loading = None
        if self.ended:
            raise JobProcessDied(self._last_words())
        if (failure := loading.result().failure) is not None:
            raise error_of(failure)
        self._loaded.add(load.key)
        if cancelled:
            raise asyncio.CancelledError

    @property
    def busy(self) -> bool:
        """Whether it works a job."""
        return self._call is not None

    def retire(self) -> None:
        """Have it end once it has nothing to do, and give it no more jobs."""
        self.retired = True
        if self._transport is not None:
            self._transport.close()
            self._loop.call_later(_FAREWELL_SECONDS, self._signal, signal.SIGKILL)

    def terminate(self) -> None:
        """Have the job interrupted by a SystemExit, and what it has started ended by SIGTERM."""
        self.killed = True
        self._send(order_frame(Terminate()))
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and those that it has started."""
        self.killed = True
        self._signal(signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until it has ended."""
        if self._popen is not None:
            await asyncio.shield(self._exited)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take in what the child says."""
        if not self._offence:
            self._frames.feed(data)
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that it says no more, which is its end or becomes it."""
        self._closed = True
        if self._code is not None:
            self._end()
        else:
            self._loop.call_later(_LINGER_SECONDS, self._punish, "closed its connection")

    def _go_on(self) -> None:
        """Take in some of the reports that have come, and the others after everybody's turn."""
        more = False
        try:
            for at, frame in enumerate(self._frames, 1):
                self._take(read_report(frame))
                if more := at == _REPORTS_AT_ONCE:
                    break
        except ValueError as error:
            # msgspec's errors are ValueErrors too.
            self._punish(f"said what its client does not understand ({error})")
        if self._transport is None or self._transport.is_closing():
            return
        if more:
            self._transport.pause_reading()
            self._loop.call_soon(self._go_on)
        else:
            self._transport.resume_reading()

    def _take(self, report: Report) -> None:
        if isinstance(report, Ready):
            self.ready = True
            self._changed(self)
            return
        if isinstance(report, Loaded):
            if self._loading is not None and not self._loading.done():
                self._loading.set_result(report)
            return
        call = self._call
        if isinstance(report, Logged):
            own = call is not None and report.job_id == call.attempt.row.id
            context = call.context if call is not None and own else Context()
            context.run(self._log, report)
            return
        if call is None or report.job_id != call.attempt.row.id or call.over.done():
            return
        if isinstance(report, Ended):
            self.memory = report.memory
            call.ended = report
            call.over.set_result(None)
        elif isinstance(report, Updated):
            call.attempt.update(report.key, report.text)
        elif isinstance(report, Completed):
            call.attempt.complete_at(report.at)
        elif isinstance(report, Interrupted):
            call.trace = report.trace
        elif isinstance(report, Progressed):
            call.attempt.progress = _ReportedProgress(report.updates)

    def _log(self, told: Logged) -> None:
        try:
            child_logging.handle(told, self.pid)
        except Exception:
            # A filter of the program's, say: it must not cost the job its process.
            self._logger.exception("what process %s has logged could not be handled", self.pid)

    def _ask(self, attempt: Attempt) -> None:
        """Tell the job that it should end."""
        cause = attempt.asked_by
        if cause is not None:
            self._send(order_frame(Ask(attempt.row.id, cause.value)))

    def _send(self, frame: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def _check_ready(self) -> None:
        if not self.ready:
            self._punish(f"was not ready in {self._load_seconds:g} s")

    def _punish(self, offence: str) -> None:
        """Kill it, unless it has ended."""
        if self._code is None:
            self._offence = offence
            self._logger.error("process %s is killed: it %s", self.pid, offence)
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        self.retired = True
        if self._popen is not None and self._code is None:
            with suppress(OSError):
                os.killpg(self._popen.pid, number)

    def _await_exit(self) -> None:
        """Wait for the end of the process, in a thread of its own."""
        assert self._popen is not None
        code = self._popen.wait()
        # The loop may be closed already, where its program ended without stopping the client.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._exit, code)

    def _exit(self, code: int) -> None:
        self._code = code
        if self._closed or self._transport is None:
            self._end()
        else:
            self._loop.call_later(_LAST_WORDS_SECONDS, self._end)

    def _end(self) -> None:
        if self.ended:
            return
        self.ended = self.retired = True
        if self._transport is not None:
            self._transport.close()
        if self._loading is not None and not self._loading.done():
            self._loading.set_result(Loaded(0, None))
        if self._call is not None and not self._call.over.done():
            self._call.over.set_result(None)
        self._exited.set_result(None)
        self._changed(self)

    def _last_words(self) -> str:
        """Return how the process ended."""
        if self._offence:
            return f"The job's process was killed: it {self._offence}."
        code = self._code or 0
        if code >= 0:
            return f"The job's process ended with exit code {code} in the middle of the job."
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        hint = ": the system may be out of memory" if -code == signal.SIGKILL else ""
        return f"The job's process was killed by signal {-code} ({name}){hint}."


def _launched(fd: int) -> subprocess.Popen[bytes]:
    """Start an interpreter that works what comes through a socket: nothing else is inherited."""
    command = (
        f"import sys; sys.path.append({_ROOT!r});"
        f" from riverui.engine.work.processes.child import main; main({fd}, {os.getpid()})"
    )
    # In a process group of its own: Ctrl-C is for the client, which stops in its own way.
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-P", "-c", command],
        pass_fds=[fd],
        process_group=0,
        stdin=subprocess.DEVNULL,
    )


class _Call:
    """One job that the process works."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.context = copy_context()
        """That of the job's task, for what it logs."""
        self.ended: Ended | None = None
        self.trace = ""
        """Where it was interrupted."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class _ReportedProgress(Progress):
    """Where a resumable job is by the word of its child, which has its rules checked."""

    def __init__(self, updates: dict[str, str]) -> None:
        super().__init__("")
        self._updates = updates

    def keep(self, update: Callable[[str, str], None]) -> None:
        """Leave the progress for the next attempt, by setting keys of the job's metadata."""
        for key, text in self._updates.items():
            update(key, text)
