"""Polls for all queues of a client that wait for jobs, in one statement however many they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from riverui.engine.service import keep_running
from riverui.engine.waiting import between, pass_on_cancellation
from riverui.errors import RiveruiError

if TYPE_CHECKING:
    from riverui.engine.runtime import Machinery
    from riverui.engine.work.producer import Producer


class Polls:
    """One timer for each poll interval that some queue of the client has."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._polled: dict[float, set[Producer]] = {}
        self._tasks: dict[float, asyncio.Task[None]] = {}

    def add(self, producer: Producer) -> None:
        """Polls for a queue from now on."""
        interval = producer.poll_interval
        self._polled.setdefault(interval, set()).add(producer)
        if interval not in self._tasks:
            name = f"polling every {interval:g} s"
            self._tasks[interval] = asyncio.create_task(
                keep_running(name, lambda: self._run(interval), self._machinery.logger),
                name=f"riverui {name}",
            )

    async def remove(self, producer: Producer) -> None:
        """Polls for that queue no more."""
        interval = producer.poll_interval
        polled = self._polled.get(interval, set())
        polled.discard(producer)
        if not polled and (task := self._tasks.pop(interval, None)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, interval: float) -> None:
        while True:
            pass_on_cancellation()
            await asyncio.sleep(interval + between(0, max(interval / 10, 0.01)))
            await self._poll([producer for producer in self._polled[interval] if producer.waits])

    async def _poll(self, waiting: list[Producer]) -> None:
        if len(waiting) > 1:
            names = sorted(producer.name for producer in waiting)
            try:
                found = await self._machinery.fetching.call(
                    lambda executor: executor.queue_with_available_list(names)
                )
            except RiveruiError:
                # Each of them would meet the same: one does, and tells.
                waiting = waiting[:1]
            else:
                now = self._machinery.clock()
                for producer in waiting:
                    producer.last_fetched_at = now
                waiting = [producer for producer in waiting if producer.name in found]
        for producer in waiting:
            producer.poll()
