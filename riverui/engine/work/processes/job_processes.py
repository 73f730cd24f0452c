"""The child processes of one client, for jobs that must not share its process: they have their own
interpreter, and can be killed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import dataclass

from riverui.engine.limits import EngineLimits
from riverui.engine.work.attempt import Attempt, Cause
from riverui.engine.work.processes import transfer
from riverui.engine.work.processes.child_logging import logger_levels
from riverui.engine.work.processes.job_process import JobProcess
from riverui.engine.work.processes.messages import Setup
from riverui.engine.work.worker import WorkUnit
from riverui.errors import JobProcessDied, JobTimedOut

_CLOSE_SECONDS = 2.0
"""Seconds that idle processes may take to end, including exit handlers, before they are killed."""
_LAST_TURNS = 500
"""Turns of the event loop, a millisecond each, for jobs of killed processes to report how they
ended, which includes hooks.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessConfig:
    """How many processes a client has, and how long each lives."""

    most: int
    keeps_logs: bool
    kill_after: float
    """Seconds from asking a job to end to killing its process."""
    max_jobs: int | None
    max_memory: int | None
    """Resident bytes."""


class JobProcesses:
    """Up to `most` processes, which are started on demand and reused."""

    def __init__(
        self, config: ProcessConfig, *, limits: EngineLimits, logger: logging.Logger
    ) -> None:
        self._attempts: set[Attempt] = set()
        self._closed = False
        self._config = config
        self._free = asyncio.Semaphore(config.most)
        """Processes that may be acquired: idle ones, and those that may be started."""
        self._idle: list[JobProcess] = []
        self._limits = limits
        self._logger = logger
        self._processes: set[JobProcess] = set()
        self._starts: set[asyncio.Task[JobProcess]] = set()
        self._workers: dict[int, tuple[object, int, bytes]] = {}
        """Key and pickle of each worker, by its id; the worker is referenced, so that no other
        object gets its id.
        """

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the processes that have not ended."""
        return tuple(each.pid for each in self._living() if each.pid)

    def check(self, units: Iterable[WorkUnit]) -> None:
        """Raise ConfigError if a worker cannot be sent to another process."""
        for unit in units:
            self._pickled(unit)

    async def work(
        self,
        unit: WorkUnit,
        attempt: Attempt,
        begun: Callable[[], None],
        *,
        hard_seconds: float | None,
    ) -> None:
        """Work a job in a process, and raise its exception.

        `begun` is called when it begins. The process is killed `hard_seconds` after that, or never
        if infinite; None kills it some time after the job was asked to end. JobTimedOut if a time
        limit killed it, CancelledError if another request did, JobProcessDied if the process ended
        by itself.
        """
        key, worker = self._pickled(unit)
        if self._closed:
            # No job starts any more: this one is interrupted while it waits for a process.
            attempt.end(Cause.STOP)
        self._attempts.add(attempt)
        try:
            process = await self._acquire()
            killer = _Killer(process, attempt, hard_seconds, self._config, self._limits)
            died: JobProcessDied | None = None
            try:
                await process.work(attempt, key, worker, lambda: killer.begin(begun), killer.ask)
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
        """Kill the processes of all jobs, which makes these available, and wait for their end. No
        more processes are started.
        """
        self._closed = True
        attempts = tuple(self._attempts)
        for attempt in attempts:
            attempt.end(Cause.STOP)
        for process in self._living():
            process.kill()
        for _ in range(_LAST_TURNS):
            if all(attempt.done for attempt in attempts):
                break
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        """End all processes. Those still working a job are killed."""
        self._closed = True
        for start in tuple(self._starts):
            start.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        processes = self._living()
        for process in processes:
            if process.ready and not process.busy:
                process.retire()
            else:
                process.kill()
        if not processes:
            return
        all_ended = asyncio.gather(*(process.ended.wait() for process in processes))
        done, _ = await asyncio.wait([all_ended], timeout=_CLOSE_SECONDS)
        if not done:
            for process in processes:
                process.kill()
            await all_ended

    def _living(self) -> list[JobProcess]:
        self._processes = {each for each in self._processes if not each.ended.is_set()}
        return list(self._processes)

    def _pickled(self, unit: WorkUnit) -> tuple[int, bytes]:
        """Return the key of a worker, and its pickle."""
        found = self._workers.get(id(unit.worker))
        if found is None:
            found = unit.worker, len(self._workers), transfer.pickled(unit)
            self._workers[id(unit.worker)] = found
        return found[1:]

    async def _acquire(self) -> JobProcess:
        """Wait until a process may be acquired, and acquire it; start one if none is idle."""
        await self._free.acquire()
        while self._idle:
            if not (process := self._idle.pop()).retired:
                return process
        # Not in the context of the job for which it happens to be started.
        start = asyncio.create_task(self._start(), name="riverui process", context=Context())
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)
        try:
            return await asyncio.shield(start)
        except asyncio.CancelledError:
            # The job was cancelled: the next job gets the process.
            start.add_done_callback(self._release_started)
            raise
        except BaseException:
            self._free.release()
            raise

    async def _start(self) -> JobProcess:
        """Start a process, and return it when it is ready."""
        process = JobProcess(load_seconds=self._limits.process_load_seconds, logger=self._logger)
        self._processes.add(process)
        await process.start(
            Setup(
                path=[entry for entry in sys.path if isinstance(entry, str)],
                uses_django=_uses_django(),
                keeps_logs=self._config.keeps_logs,
                levels=logger_levels(),
                disabled_level=logging.root.manager.disable,
                measures_memory=self._config.max_memory is not None,
            )
        )
        return process

    def _release_started(self, start: asyncio.Task[JobProcess]) -> None:
        if start.cancelled() or start.exception() is not None:
            self._free.release()
        else:
            self._release(start.result())

    def _release(self, process: JobProcess) -> None:
        """Keep a process for the next job, or have it end."""
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
            self._idle.append(process)
        self._free.release()


class _Killer:
    """Kills one job's process if the job does not end in time."""

    def __init__(
        self,
        process: JobProcess,
        attempt: Attempt,
        hard_seconds: float | None,
        config: ProcessConfig,
        limits: EngineLimits,
    ) -> None:
        self._attempt = attempt
        self._hard_seconds = hard_seconds
        self._kill_after = config.kill_after
        self._killing = False
        self._loop = asyncio.get_running_loop()
        self._overran = False
        """Whether the hard time limit was the reason."""
        self._process = process
        self._term_seconds = limits.process_term_seconds
        self._timers: list[asyncio.TimerHandle] = []

    def begin(self, begun: Callable[[], None]) -> None:
        """Start the hard time limit."""
        if self._hard_seconds is not None and self._hard_seconds != float("inf"):
            self._later(self._hard_seconds, self._overrun)
        begun()

    def ask(self) -> None:
        """Record that the job was asked to end."""
        if self._attempt.cause is None and self._hard_seconds is not None:
            # If only its time limit has passed, it may run until the hard one.
            return
        self._later(self._kill_after, self._kill)

    def reason(self, died: JobProcessDied) -> BaseException:
        """Return the error for why the process was killed; the process's own error if this has not
        killed it.
        """
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
                f"The job ran on for {self._kill_after:g} s after its time limit, and its process"
                " was killed."
            )
        return died

    def close(self) -> None:
        """Stop, unless killing has begun."""
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
            self._later(self._term_seconds, self._process.kill)

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(seconds, do))


def _uses_django() -> bool:
    """Return whether the program uses Django, with a settings module."""
    apps = sys.modules.get("django.apps")
    if apps is None or not apps.apps.ready:
        return False
    return hasattr(sys.modules["django.conf"].settings, "SETTINGS_MODULE")
