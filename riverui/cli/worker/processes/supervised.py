"""A supervised worker process: works its share of the jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from riverui.cli.worker.health import WorkerHealth
from riverui.cli.worker.processes import messages
from riverui.cli.worker.processes.fork import ForkedWorker
from riverui.cli.worker.settings import WorkerConfig
from riverui.engine.client import Client
from riverui.engine.process_memory import resident_bytes
from riverui.engine.shutdown import leave_process, stop_in_phases
from riverui.ipc.child_process import Channel

if TYPE_CHECKING:
    from riverui.cli.worker.metrics import Family
    from riverui.contrib.prometheus import PrometheusPlugin

log = logging.getLogger("riverui.worker")

_REPORT_SECONDS = 1.0
"""Seconds between two reports of memory and jobs, of some twenty bytes each."""
_REPORT_TAKEN_SECONDS = 0.05
"""Seconds between two checks for free slots, for which another process waits."""
_MAX_ID = 100
"""Characters of a client's id: River's limit."""


async def run_supervised(client: Client, config: WorkerConfig, forked: ForkedWorker) -> None:
    """Work a share of the client's queues until the supervisor stops it, or ends.

    Raise DatabaseError or ConfigError if it cannot start. If jobs do not end even when they are
    cancelled, the process exits with code 1.
    """
    worker = SupervisedWorker(client, config, forked.number)
    await worker.channel.open(forked.channel)
    try:
        await worker.run()
    finally:
        # Also closes the connections if it could not start.
        await client.stop()
        await worker.close()
    log.info("worker has stopped", extra={"client": client.id})


def share(slots: Mapping[str, int], processes: int, number: int) -> dict[str, int]:
    """Return this process's number of slots by queue, without queues of which it has none.

    Processes are numbered from 1. Slots are dealt in turn, queue after queue, so that queues with
    few slots are worked by different processes.
    """
    dealt, first = {}, 0
    for name, count in sorted(slots.items()):
        each, rest = divmod(count, processes)
        mine = each + ((number - 1 - first) % processes < rest)
        if mine:
            dealt[name] = mine
        first += rest
    return dealt


class SupervisedWorker:
    """A client whose supervisor assigns its slots and stops it."""

    def __init__(self, client: Client, config: WorkerConfig, number: int) -> None:
        self.channel: Channel[messages.Order] = Channel(messages.Order, self._take, self._on_closed)
        self._client = client
        self._closing = False
        self._config = config
        self._queues = client.config.queues
        self._slots = {name: queue.max_workers for name, queue in self._queues.items()}
        """In all processes together."""
        self._share = share(self._slots, config.processes, number)
        self._lent: Mapping[str, int] = {}
        """Slots that it may use now: a predecessor may still use the rest of its share."""
        self._lent_more = asyncio.Event()
        self._asked: asyncio.Queue[None] = asyncio.Queue()
        """An entry for each phase of the stop."""
        self._phase = 0
        self._health = WorkerHealth(client)
        self._answers: set[asyncio.Task[None]] = set()
        self._plugin: PrometheusPlugin | None = None
        if config.metrics:
            # Load prometheus_client only if metrics are enabled.
            from riverui.cli.worker.metrics import prometheus_plugin

            self._plugin = prometheus_plugin(client)
        # Each process is a client of its own.
        client.id = f"{client.id[: _MAX_ID - len(f'_{os.getpid()}')]}_{os.getpid()}"

    async def run(self) -> None:
        """Start, work, and stop."""
        loop = asyncio.get_running_loop()
        reporting = asyncio.create_task(self._report_state(), name="riverui process state")
        loop.add_signal_handler(signal.SIGTERM, self._stop_alone)
        try:
            async with self._client.driver.reading() as db:
                await db.queues.row_get("default")
            self.channel.send(messages.Ready(self._slots, self._share))
            if await self._first(self._lent_more):
                await self._work()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            reporting.cancel()
            await asyncio.wait([reporting])

    async def close(self) -> None:
        """Report the final metrics and close the channel."""
        if self._plugin is not None:
            self.channel.send(messages.Metrics(self._metrics(self._plugin)))
        self._closing = True
        self.channel.close()
        await self.channel.closed.wait()

    def _metrics(self, plugin: PrometheusPlugin) -> list[Family]:
        from riverui.cli.worker.metrics import families

        return families(plugin)

    async def _work(self) -> None:
        client = self._client
        client.config = replace(
            client.config,
            queues={
                name: replace(self._queues[name], max_workers=count)
                for name, count in self._lent.items()
            },
        )
        await client.start()
        queues = " ".join(f"{name}={count}" for name, count in sorted(self._share.items()))
        log.info(
            "worker has started", extra={"client": client.id, "pid": os.getpid(), "queues": queues}
        )
        self.channel.send(messages.Started(client.id))
        while await self._first(self._lent_more):
            await self._take_slots()
        self._health.stopping = True
        ending = asyncio.create_task(self._report_taken(), name="riverui slots")
        try:
            if not await stop_in_phases(client, self._asked, soft_stop=None, hard_stop=None):
                leave_process()
        finally:
            ending.cancel()
            await asyncio.wait([ending])

    async def _take_slots(self) -> None:
        """Use the slots that are lent now."""
        client = self._client
        for name, count in tuple(self._lent.items()):
            known = client.config.queues.get(name)
            if known is None:
                await client.queues.add(name, replace(self._queues[name], max_workers=count))
            elif known.max_workers != count:
                await client.queues.scale(name, count)

    async def _first(self, event: asyncio.Event) -> bool:
        """Wait for the event and clear it; return False if a stop came first, which is consumed."""
        asked = asyncio.ensure_future(self._asked.get())
        came = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({asked, came}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            came.cancel()
            asked.cancel()
        event.clear()
        return not asked.done() or asked.cancelled()

    def _take(self, order: messages.Order) -> None:
        if isinstance(order, messages.Lend):
            self._lent = order.slots
            self._lent_more.set()
        elif isinstance(order, messages.Ask):
            answer = asyncio.create_task(self._answer(order))
            self._answers.add(answer)
            answer.add_done_callback(self._answers.discard)
        else:
            self._stop(order.phase)

    def _on_closed(self, error: ValueError | None) -> None:
        if self._closing:
            return
        if not self._phase:
            log.error("the supervisor has ended: this process stops")
        self._stop_alone()

    def _stop(self, phase: int) -> None:
        """Begin this phase of the stop and those before it, unless begun already."""
        for _ in range(phase - self._phase):
            self._asked.put_nowait(None)
        self._phase = max(self._phase, phase)

    def _stop_alone(self) -> None:
        """Stop in three phases without the supervisor."""
        loop = asyncio.get_running_loop()
        soft = self._config.soft_stop.total_seconds()
        self._stop(1)
        loop.call_later(soft, self._stop, 2)
        loop.call_later(soft + self._config.hard_stop.total_seconds(), self._stop, 3)

    async def _answer(self, question: messages.Ask) -> None:
        found: object = None
        if question.about == "health":
            found = await self._health.check()
        elif self._plugin is not None:
            found = self._metrics(self._plugin)
        self.channel.send(messages.Answer(question.id, found))

    async def _report_state(self) -> None:
        """Report memory and jobs periodically: both may be reasons to replace this process."""
        while True:
            runtime = self._client.runtime
            producers = tuple(runtime.producers.values()) if runtime else ()
            worked = sum(producer.slots.counts.worked for producer in producers)
            self.channel.send(messages.State(resident_bytes(), worked))
            await asyncio.sleep(_REPORT_SECONDS)

    async def _report_taken(self) -> None:
        """While it stops, report the number of used slots each time it decreases."""
        reported = None
        while True:
            runtime = self._client.runtime
            if runtime is None or runtime.stopping:
                taken = self._client.slots_by_queue
                if taken != reported:
                    self.channel.send(messages.Taken(taken))
                    reported = taken
            await asyncio.sleep(_REPORT_TAKEN_SECONDS)
