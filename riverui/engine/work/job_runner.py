"""All that works fetched jobs and writes how they ended, put together for one client."""

from __future__ import annotations

import asyncio

from riverui.engine.client_context import ClientContext
from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.work.attempt_tallies import AttemptTallies
from riverui.engine.work.completer import Completer
from riverui.engine.work.deadlines import Deadlines
from riverui.engine.work.job_executor import JobExecutor
from riverui.engine.work.job_log import JobLogs
from riverui.engine.work.threads import WorkerThreads


class JobRunner:
    """Works jobs from `start` to `stop`. It fetches none."""

    def __init__(self, client: ClientContext, *, threads: int) -> None:
        config = client.config
        self.logs = JobLogs(client) if config.log_jobs else None
        self.threads = WorkerThreads(threads)
        self._connection = DedicatedConnection(
            client.driver, timeout=client.limits.statement_timeout
        )
        self._beside = DedicatedConnection(client.driver, timeout=client.limits.statement_timeout)
        """Opened where many jobs end at once."""
        self._deadlines = Deadlines(
            config.job_stuck_threshold.total_seconds(), lambda attempt: attempt.slots.stuck(attempt)
        )
        self._completer = Completer(
            self._connection,
            client.events,
            clock=client.clock,
            logger=client.logger,
            limits=client.limits,
            pilot=client.pilot,
            beside=self._beside,
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
            threads=self.threads,
        )

    def count(self, tallies: AttemptTallies | None) -> None:
        """Have ended attempts counted there from now on, or no more."""
        self._completer.tallies = tallies

    @property
    def unwritten(self) -> int:
        """How many outcomes have not been written; after `stop` those that are lost."""
        return self._completer.waiting

    def start(self) -> None:
        """Begin to collect the logs of jobs, and to write outcomes."""
        if self.logs is not None:
            self.logs.begin()
        self._completion = asyncio.create_task(self._completer.run(), name="riverui completer")

    async def stop(self, seconds: float) -> None:
        """Write the last outcomes, for at most so many seconds without a database, and end
        everything.
        """
        if self._completion is not None:
            self._completer.finish(seconds)
            await self._completion
        if self.logs is not None:
            self.logs.end()
        self._deadlines.close()
        self.threads.close()
        await self._connection.close()
        await self._beside.close()
