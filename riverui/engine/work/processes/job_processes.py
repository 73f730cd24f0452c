"""The child processes of one client, in which jobs run that must not share its process: apart from
its interpreter, and killable.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass

from riverui.engine.limits import EngineLimits
from riverui.engine.work.attempt import Attempt, Cause
from riverui.engine.work.processes import references
from riverui.engine.work.processes.child_logging import logger_levels
from riverui.engine.work.processes.job_process import JobProcess
from riverui.engine.work.processes.messages import Load, Setup
from riverui.engine.work.worker import WorkUnit
from riverui.errors import JobProcessDied, JobTimedOut

_CLOSE_SECONDS = 2.0
"""How long idle processes may take to end, with what they do at exit, before they are killed."""
_LAST_TURNS = 500
"""Milliseconds that jobs of killed processes get to tell how they ended: hooks take part in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessConfig:
    """How many processes a client has, and how long each lives."""

    most: int
    keeps_logs: bool
    kill_after: float
    """Seconds from asking a job to end to killing it."""
    max_jobs: int | None
    max_memory: int | None
    """Bytes."""


class JobProcesses:
    """Up to `most` processes, which are started when they are needed and kept."""

    def __init__(
        self, config: ProcessConfig, *, limits: EngineLimits, logger: logging.Logger
    ) -> None:
        self._attempts: set[Attempt] = set()
        self._closed = False
        self._config = config
        self._idle: list[JobProcess] = []
        self._limits = limits
        self._loads: dict[int, tuple[object, Load]] = {}
        """By the id of the worker, which is kept, so that no other gets that."""
        self._logger = logger
        self._processes: set[JobProcess] = set()
        self._starts: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[JobProcess]] = deque()

    @property
    def pids(self) -> tuple[int, ...]:
        """Those of the processes there are."""
        return tuple(process.pid for process in self._processes if process.pid)

    def check(self, units: Iterable[WorkUnit]) -> None:
        """Raise ConfigError where a worker cannot be sent to a process of its own."""
        for unit in units:
            self._load(unit)

    async def work(
        self,
        unit: WorkUnit,
        attempt: Attempt,
        begun: Callable[[], None],
        *,
        hard_seconds: float | None,
    ) -> None:
        """Have a job worked in a process, and raise what it raised.

        `begun` is called once there is a process for it. The process is killed `hard_seconds` after
        that, infinite for never; None leaves it to how long the job goes on when it was asked to
        end. JobTimedOut where a time limit killed it, CancelledError where somebody else had it
        killed, JobProcessDied where the process died by itself.
        """
        load = self._load(unit)
        if self._closed:
            # Nothing is begun any more: it is interrupted where it waits for a process.
            attempt.end(Cause.STOP)
        self._attempts.add(attempt)
        try:
            process = await self._acquire()
            killer = _Killer(self, process, attempt, hard_seconds)
            died: JobProcessDied | None = None
            try:
                await process.work(load, attempt, lambda: killer.begin(begun), killer.asked)
            except JobProcessDied as error:
                died = error
            finally:
                killer.close()
                self._release(process)
            if died is not None:
                raise killer.reason(died) from died.__cause__
        finally:
            self._attempts.discard(attempt)

    async def abandon(self) -> None:
        """Kill the processes of all jobs, which are available again then, and wait for that. No
        more are started.
        """
        self._closed = True
        attempts = tuple(self._attempts)
        for attempt in attempts:
            attempt.end(Cause.STOP)
        for process in tuple(self._processes):
            process.kill()
        for _ in range(_LAST_TURNS):
            if all(attempt.done for attempt in attempts):
                break
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        """End all processes. Those still at work are killed."""
        self._closed = True
        for start in tuple(self._starts):
            start.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        processes = tuple(self._processes)
        for process in processes:
            if process.ready and not process.busy:
                process.retire()
            else:
                process.kill()
        if not processes:
            return
        all_gone = asyncio.gather(*(process.gone() for process in processes))
        done, _ = await asyncio.wait([all_gone], timeout=_CLOSE_SECONDS)
        if not done:
            for process in processes:
                process.kill()
            await all_gone

    def _load(self, unit: WorkUnit) -> Load:
        found = self._loads.get(id(unit.worker))
        if found is None:
            found = unit.worker, Load(len(self._loads), references.pickled(unit))
            self._loads[id(unit.worker)] = found
        return found[1]

    async def _acquire(self) -> JobProcess:
        """Wait for a process that has nothing to do, and take it."""
        while self._idle:
            process = self._idle.pop()
            if not process.retired:
                return process
        while True:
            waiter: asyncio.Future[JobProcess] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            self._start_some()
            try:
                process = await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled() and waiter.done() and waiter.exception() is None:
                    self._release(waiter.result())
                raise
            finally:
                with suppress(ValueError):
                    self._waiting.remove(waiter)
            if not process.retired:
                return process

    def _release(self, process: JobProcess) -> None:
        """Take back a process: for the next job, or to let it end."""
        config = self._config
        worn = (config.max_jobs is not None and process.jobs >= config.max_jobs) or (
            config.max_memory is not None and (process.memory or 0) > config.max_memory
        )
        if worn and not process.retired:
            self._logger.debug(
                "process %s ends after %s jobs, with %s bytes of memory",
                process.pid,
                process.jobs,
                process.memory,
            )
        if worn or self._closed:
            process.retire()
        elif not process.retired:
            self._offer(process)
        self._start_some()

    def _offer(self, process: JobProcess) -> None:
        if waiter := self._next_waiter():
            waiter.set_result(process)
        else:
            self._idle.append(process)

    def _next_waiter(self) -> asyncio.Future[JobProcess] | None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None

    def _start_some(self) -> None:
        """Start as many processes as jobs wait for, and as there may be."""
        if self._closed:
            return
        coming = sum(not process.ready for process in self._processes)
        there = sum(not process.retired for process in self._processes)
        for _ in range(min(len(self._waiting) - coming, self._config.most - there)):
            process = JobProcess(
                changed=self._changed,
                load_seconds=self._limits.process_load_seconds,
                logger=self._logger,
            )
            self._processes.add(process)
            # Not in the context of the job for which it happens to be started.
            start = asyncio.get_running_loop().create_task(
                self._start(process), name="riverui process", context=Context()
            )
            self._starts.add(start)
            start.add_done_callback(self._starts.discard)

    async def _start(self, process: JobProcess) -> None:
        try:
            await process.start(self._setup())
        except OSError as error:
            self._processes.discard(process)
            self._fail_one(f"The job's process could not be started: {error}")
            self._start_some()

    def _changed(self, process: JobProcess) -> None:
        if not process.ended:
            self._offer(process)
            return
        self._processes.discard(process)
        if process in self._idle:
            self._idle.remove(process)
        if not process.ready and not self._closed:
            self._fail_one("The job's process ended before it could begin: its output says why.")
        self._start_some()

    def _fail_one(self, words: str) -> None:
        if waiter := self._next_waiter():
            waiter.set_exception(JobProcessDied(words))

    def _setup(self) -> Setup:
        return Setup(
            path=list(sys.path),
            uses_django=_uses_django(),
            keeps_logs=self._config.keeps_logs,
            levels=logger_levels(),
            disabled_level=logging.root.manager.disable,
            measures_memory=self._config.max_memory is not None,
        )

    @property
    def kill_after(self) -> float:
        """Seconds from asking a job to end to killing it."""
        return self._config.kill_after

    @property
    def term_seconds(self) -> float:
        """Seconds from SIGTERM to SIGKILL."""
        return self._limits.process_term_seconds


class _Killer:
    """Ends one job's process where the job does not end in time."""

    def __init__(
        self,
        owner: JobProcesses,
        process: JobProcess,
        attempt: Attempt,
        hard_seconds: float | None,
    ) -> None:
        self._attempt = attempt
        self._begun_at = 0.0
        self._hard_seconds = hard_seconds
        self._killing = False
        self._loop = asyncio.get_running_loop()
        self._overran = False
        """Whether the hard time limit was it."""
        self._owner = owner
        self._process = process
        self._timers: list[asyncio.TimerHandle] = []

    def begin(self, begun: Callable[[], None]) -> None:
        """Begin to count."""
        if self._hard_seconds is not None and self._hard_seconds != float("inf"):
            self._later(self._hard_seconds, self._overrun)
        begun()

    def asked(self) -> None:
        """Take note that the job was asked to end."""
        if self._attempt.cause is None and self._hard_seconds is not None:
            # Only its time limit has passed: it has until the hard one.
            return
        self._later(self._owner.kill_after, self._kill)

    def reason(self, died: JobProcessDied) -> BaseException:
        """Return why the process was killed; its own death where it was not, from here."""
        attempt = self._attempt
        if not self._process.killed:
            return died
        if self._overran:
            return JobTimedOut(
                f"The job took longer than its hard time limit of {self._hard_seconds:g} s, and its"
                " process was killed."
            )
        if attempt.cause is not None:
            return asyncio.CancelledError()
        if attempt.timed_out:
            return JobTimedOut(
                f"The job went on for {self._owner.kill_after:g} s after its time limit, and its"
                " process was killed."
            )
        return died

    def close(self) -> None:
        """Kill nothing any more, unless it is under way."""
        if not self._killing:
            for timer in self._timers:
                timer.cancel()

    def _overrun(self) -> None:
        self._overran = self._overran or not self._killing
        self._kill()

    def _kill(self) -> None:
        if not self._killing:
            self._killing = True
            self._process.terminate()
            self._later(self._owner.term_seconds, self._process.kill)

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, do))


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _uses_django() -> bool:
    """Return whether the program has set Django up, with a module of settings."""
    apps = sys.modules.get("django.apps")
    if apps is None or not apps.apps.ready:
        return False
    return hasattr(sys.modules["django.conf"].settings, "SETTINGS_MODULE")
