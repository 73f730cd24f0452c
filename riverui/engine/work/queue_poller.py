"""Polls for all waiting queues of a client in one statement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from riverui.engine.dedicated_connection import DedicatedConnection
from riverui.engine.service import keep_running
from riverui.engine.waiting import between, pass_on_cancellation
from riverui.errors import RiveruiError

if TYPE_CHECKING:
    from riverui.engine.work.fetcher import Fetcher


class QueuePoller:
    """Polls with one timer per poll interval of the client's queues."""

    def __init__(
        self,
        connection: DedicatedConnection,
        *,
        clock: Callable[[], datetime],
        logger: logging.Logger,
    ) -> None:
        self._clock = clock
        self._connection = connection
        self._logger = logger
        self._polled: dict[float, set[Fetcher]] = {}
        self._tasks: dict[float, asyncio.Task[None]] = {}

    def add(self, queue: Fetcher) -> None:
        """Poll for a queue from now on."""
        interval = queue.poll_interval
        self._polled.setdefault(interval, set()).add(queue)
        if interval not in self._tasks:
            name = f"polling every {interval:g} s"
            self._tasks[interval] = asyncio.create_task(
                keep_running(name, lambda: self._run(interval), self._logger),
                name=f"riverui {name}",
            )

    async def remove(self, queue: Fetcher) -> None:
        """Stop polling for a queue."""
        interval = queue.poll_interval
        polled = self._polled.get(interval, set())
        polled.discard(queue)
        if not polled and (task := self._tasks.pop(interval, None)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, interval: float) -> None:
        while True:
            pass_on_cancellation()
            await asyncio.sleep(interval + between(0, max(interval / 10, 0.01)))
            await self._poll([queue for queue in self._polled[interval] if queue.waits])

    async def _poll(self, waiting: list[Fetcher]) -> None:
        if len(waiting) > 1:
            # Without those where the beginning is slow to read.
            names = sorted(queue.name for queue in waiting if not queue.start.later)
            try:
                found = await self._connection.call(
                    lambda executor: executor.queues.with_available_list(names)
                )
            except RiveruiError:
                # All would get the same error, so one queue logs it.
                waiting = waiting[:1]
            else:
                now = self._clock()
                for queue in waiting:
                    queue.last_fetched_at = now
                waiting = [queue for queue in waiting if queue.start.later or queue.name in found]
        for queue in waiting:
            queue.poll()
