"""One child process from its client's view: it works one job after another."""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
from collections.abc import Callable
from contextvars import Context, copy_context

from riverui.engine.work.attempt import Attempt
from riverui.engine.work.outcome import ProcessTrace
from riverui.engine.work.processes import child_logging, messages, transfer
from riverui.engine.work.progress import Progress
from riverui.errors import JobProcessDied
from riverui.ipc.child_process import ChildProcess

_CHILD = "riverui.engine.work.processes.child"
_EXIT_SECONDS = 10.0
"""Seconds that a process without further jobs may take to end, including its exit handlers."""
_LINGER_SECONDS = 1.0
"""Seconds that a process may keep running after it closed its channel."""


class JobProcess(ChildProcess[messages.Report]):
    """A child process that works jobs."""

    def __init__(self, *, load_seconds: float, logger: logging.Logger) -> None:
        """Create one without starting it. It may take so many seconds to start, and as many to load
        a worker.
        """
        super().__init__(messages.Report)
        self.jobs = 0
        """How many jobs it has been given."""
        self.killed = False
        """Whether its owner has killed it."""
        self.memory: int | None = None
        """Resident bytes after its last job, if they are measured."""
        self.ready = False
        self.retired = False
        """Whether it gets no more jobs."""
        self._call: _Call | None = None
        self._load_seconds = load_seconds
        self._loaded: set[int] = set()
        """The keys of workers that it has loaded."""
        self._logger = logger
        self._offence = ""
        """The reason why it was killed for a fault."""
        self._started = asyncio.Event()
        """Set when it is ready, or has ended."""

    async def start(self, setup: messages.Setup) -> None:
        """Start the process and wait until it is ready; JobProcessDied if it does not start. It is
        killed if it is not ready in time.
        """
        try:
            await self.launch(_CHILD)
        except OSError as error:
            raise JobProcessDied(f"The job's process could not be started: {error}") from error
        self.send(setup)
        timer = self._punish_later(f"was not ready in {self._load_seconds:g} s")
        await self._started.wait()
        timer.cancel()
        if not self.ready:
            raise JobProcessDied(
                "The job's process ended before it could begin: its output says why."
            )

    async def work(
        self,
        attempt: Attempt,
        key: int,
        worker: bytes,
        begun: Callable[[], None],
        asked: Callable[[], None],
    ) -> None:
        """Work a job in the process, with the worker of that key, and raise its exception.

        `begun` is called when it begins, `asked` each time that this task is cancelled, which asks
        the job to end. JobProcessDied if the process did not survive it.
        """
        loads = key not in self._loaded
        timer: asyncio.TimerHandle | None = None
        if loads:
            timer = self._punish_later(f"did not load in {self._load_seconds:g} s")
        self._call = call = _Call(attempt, begun, timer)
        self.jobs += 1
        self.send(
            messages.Assignment(
                job_id=attempt.row.id,
                row=pickle.dumps(attempt.seen, pickle.HIGHEST_PROTOCOL),
                key=key,
                worker=worker if loads else None,
                ephemeral=attempt.ephemeral,
                trace_context=transfer.current_trace(),
            )
        )
        try:
            if not loads:
                begun()
            while not call.over.done():
                try:
                    await asyncio.wait([call.over])
                except asyncio.CancelledError:
                    if (cause := attempt.asked_by) is not None:
                        self.send(messages.Ask(attempt.row.id, cause.value))
                    asked()
        finally:
            self._call = None
            if timer is not None:
                timer.cancel()
        if call.begun:
            self._loaded.add(key)
        if call.ended is None:
            died = JobProcessDied(self._last_words())
            if call.trace:
                died.__cause__ = ProcessTrace(call.trace)
            raise died
        if attempt.cpu is not None:
            attempt.cpu.nanoseconds += call.ended.cpu_ns
        if call.ended.failure is not None:
            raise transfer.error_of(call.ended.failure)

    @property
    def busy(self) -> bool:
        """Whether it works a job."""
        return self._call is not None

    def retire(self) -> None:
        """Give it no more jobs, and have it end when it is idle."""
        self.retired = True
        self.hang_up()
        self._loop.call_later(_EXIT_SECONDS, self.signal, signal.SIGKILL)

    def terminate(self) -> None:
        """Interrupt the job by a SystemExit, and end the processes it has started by SIGTERM."""
        self.killed = self.retired = True
        self.send(messages.Terminate())
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and the processes that it has started."""
        self.killed = self.retired = True
        self.signal(signal.SIGKILL)

    def take(self, report: messages.Report) -> None:
        """Handle a report of the child."""
        call = self._call
        if isinstance(report, messages.Ready):
            self.ready = True
            self._started.set()
        elif isinstance(report, messages.Logged):
            own = call is not None and report.job_id == call.attempt.row.id
            context = call.context if call is not None and own else Context()
            context.run(self._log, report)
        elif call is None or report.job_id != call.attempt.row.id or call.over.done():
            return
        elif isinstance(report, messages.Begun):
            call.begin()
        elif isinstance(report, messages.Updated):
            call.attempt.update(report.key, report.text)
        elif isinstance(report, messages.Completed):
            call.attempt.complete_at(report.at)
        elif isinstance(report, messages.Progressed):
            call.attempt.progress = _ReportedProgress(report.updates)
        elif isinstance(report, messages.Interrupted):
            call.trace = report.trace
        else:
            self.memory = report.memory
            call.ended = report
            call.over.set_result(None)

    def silent(self, error: ValueError | None) -> None:
        """Kill a process that has sent invalid data, or keeps running without its channel."""
        if error is not None:
            self._punish(f"sent an invalid message ({error})")
        else:
            self._loop.call_later(_LINGER_SECONDS, self._punish, "closed its connection")

    def over(self) -> None:
        """End the current job with the process."""
        self.retired = True
        self._started.set()
        if self._call is not None and not self._call.over.done():
            self._call.over.set_result(None)

    def _log(self, record: messages.Logged) -> None:
        try:
            child_logging.handle(record, self.pid)
        except Exception:
            # Such as a log filter of the program: its error must not end the process.
            self._logger.exception("a log record of process %s could not be handled", self.pid)

    def _punish_later(self, offence: str) -> asyncio.TimerHandle:
        return self._loop.call_later(self._load_seconds, self._punish, offence)

    def _punish(self, offence: str) -> None:
        """Kill the process for a fault, unless it has ended."""
        if self.exit_code is None:
            self.retired, self._offence = True, offence
            self._logger.error("process %s is killed: it %s", self.pid, offence)
            self.signal(signal.SIGKILL)

    def _last_words(self) -> str:
        """Return a sentence about how the process ended."""
        if self._offence:
            return f"The job's process was killed: it {self._offence}."
        code = self.exit_code or 0
        if code >= 0:
            return f"The job's process ended with exit code {code} in the middle of the job."
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        hint = ": the system may be out of memory" if -code == signal.SIGKILL else ""
        return f"The job's process was killed by signal {-code} ({name}){hint}."


class _Call:
    """One job in the process."""

    def __init__(
        self, attempt: Attempt, begun: Callable[[], None], timer: asyncio.TimerHandle | None
    ) -> None:
        self.attempt = attempt
        self.begun = False
        """Whether the process has loaded the worker in this call."""
        self.context = copy_context()
        """The context of the job's task, for its log records."""
        self.ended: messages.Ended | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.trace = ""
        """The traceback of its interruption."""
        self._on_begun = begun
        self._timer = timer

    def begin(self) -> None:
        """Record that the job begins, as its worker is loaded."""
        self.begun = True
        if self._timer is not None:
            self._timer.cancel()
        self._on_begun()


class _ReportedProgress(Progress):
    """The progress of a resumable job as reported by its child, which checks the rules."""

    def __init__(self, updates: dict[str, str]) -> None:
        super().__init__("")
        self._updates = updates

    def keep(self, update: Callable[[str, str], None]) -> None:
        """Keep the progress for the next attempt, by setting keys of the job's metadata."""
        for key, text in self._updates.items():
            update(key, text)
