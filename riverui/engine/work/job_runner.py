"""Works fetched jobs and writes their outcomes: combines these parts of one client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from riverui.engine.client_context import ClientContext
from riverui.engine.work.completer import Completer
from riverui.engine.work.cpu_time import CpuMeter
from riverui.engine.work.deadlines import Deadlines
from riverui.engine.work.job_executor import JobExecutor
from riverui.engine.work.job_log import JobLogs
from riverui.engine.work.threads import WorkerThreads
from riverui.engine.work.wanted_ends import WantedEnds

if TYPE_CHECKING:
    from riverui.engine.work.processes.job_processes import JobProcesses
    from riverui.features.figures.engine.attempt_tallies import AttemptTallies


class JobRunner:
    """Works jobs from `start` to `stop`; others fetch them."""

    def __init__(
        self, client: ClientContext, *, threads: int | WorkerThreads, isolates: bool = True
    ) -> None:
        """Create a runner; unless it `isolates`, isolated jobs run in threads."""
        config = client.config
        self._client = client
        self._isolates = isolates
        self.logs = JobLogs(client) if config.log_jobs else None
        self.threads = WorkerThreads(threads) if isinstance(threads, int) else threads
        self._connection, self._beside = client.connection(), client.connection()
        """Opened when many jobs end at once."""
        self._deadlines = Deadlines(
            config.job_stuck_threshold.total_seconds(), lambda attempt: attempt.slots.stuck(attempt)
        )
        self.wanted = WantedEnds(client.driver, client.logger)
        """Jobs that programs wait for."""
        self._completer = Completer(
            self._connection,
            client.events,
            clock=client.clock,
            logger=client.logger,
            limits=client.limits,
            pilot=client.pilot,
            beside=self._beside,
            wanted=self.wanted,
        )
        self._completion: asyncio.Task[None] | None = None
        self.executor = JobExecutor(
            config,
            client.extensions,
            clock=client.clock,
            completer=self._completer,
            deadlines=self._deadlines,
            logger=client.logger,
            logs=self.logs,
            processes=self.processes if isolates else None,
            threads=self.threads,
        )
        self._processes: JobProcesses | None = None

    def count(self, tallies: AttemptTallies | None) -> None:
        """Count ended attempts in these tallies from now on; None stops counting."""
        self._completer.writes.tallies = tallies
        self.executor.meter = None if tallies is None else CpuMeter(tallies.measured)

    @property
    def unwritten(self) -> int:
        """How many outcomes have not been written; after `stop` those that are lost."""
        return self._completer.waiting

    def unwritten_ids(self) -> Iterable[int]:
        """Return the jobs whose outcomes have not been written."""
        return self._completer.job_ids

    def start(self) -> None:
        """Start collecting job logs and writing outcomes. ConfigError if a worker cannot be
        isolated.
        """
        workers = self._client.config.workers
        isolated = workers.isolated if workers is not None else ()
        if isolated and self._isolates:
            self.processes().check(isolated)
        if self.logs is not None:
            self.logs.begin()
        self._completion = asyncio.create_task(self._completer.run(), name="riverui completer")

    def processes(self) -> JobProcesses:
        """Return the processes of isolated jobs, created by the first call."""
        if self._processes is None:
            # Imported only where it is needed.
            from riverui.engine.work.processes.job_processes import (
                JobProcesses,
                ProcessConfig,
            )
            from riverui.ipc.child_process import processors

            client, config = self._client, self._client.config
            process_config = ProcessConfig(
                most=config.isolation_processes or processors(),
                keeps_logs=config.log_jobs,
                kill_after=config.isolation_kill_after.total_seconds(),
                max_jobs=config.isolation_max_jobs,
                max_memory=config.isolation_max_memory,
            )
            self._processes = JobProcesses(
                process_config, limits=client.limits, logger=client.logger
            )
        return self._processes

    async def abandon(self) -> None:
        """Kill the jobs that can be killed, which makes them available again."""
        if self._processes is not None:
            await self._processes.abandon()

    async def stop(self, seconds: float) -> None:
        """Write the last outcomes, for at most so many seconds without a database, and stop all
        parts.
        """
        if self._completion is not None:
            self._completer.finish(seconds)
            await self._completion
        await self.wanted.close()
        if self.logs is not None:
            self.logs.end()
        self._deadlines.close()
        self.threads.close()
        if self._processes is not None:
            await self._processes.close()
        await self._connection.close()
        await self._beside.close()
