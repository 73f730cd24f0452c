"""One process of several: works its share of the jobs, as its supervisor says."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from riverui.cli.worker.health import WorkerHealth
from riverui.cli.worker.processes.channel import Channel, Message
from riverui.cli.worker.processes.nursery import Forked
from riverui.cli.worker.processes.shares import share
from riverui.cli.worker.settings import WorkerConfig
from riverui.engine.client import Client
from riverui.engine.process_memory import resident_bytes
from riverui.engine.shutdown import leave_process, stop_in_phases

if TYPE_CHECKING:
    from riverui.contrib.prometheus import PrometheusPlugin

log = logging.getLogger("riverui.worker")

_TELL_SECONDS = 1.0
"""Between two times that the supervisor is told of memory and jobs: some hundred bytes each."""
_TELL_ENDING_SECONDS = 0.05
"""Between two looks for slots that have become free, of which another process waits."""
_MOST_ID = 100
"""Characters of a client's id: River's limit."""


async def run_supervised(client: Client, config: WorkerConfig, forked: Forked) -> None:
    """Work a share of the client's queues until the supervisor says to stop, or is gone.

    Raise DatabaseError or ConfigError where it cannot start. Where jobs do not end even when they
    are cancelled, the process exits with code 1.
    """
    worker = SupervisedWorker(client, config, await Channel.open(forked.channel), forked.number)
    try:
        await worker.run()
    finally:
        # Where it could not start, this closes its connections.
        await client.stop()
        await worker.tell_last()
    log.info("worker has stopped", extra={"client": client.id})


class SupervisedWorker:
    """A client whose slots and whose end are its supervisor's to say."""

    def __init__(self, client: Client, config: WorkerConfig, channel: Channel, number: int) -> None:
        self._client = client
        self._config = config
        self._channel = channel
        self._queues = client.config.queues
        self._slots = {name: queue.max_workers for name, queue in self._queues.items()}
        """In all processes together."""
        self._share = share(self._slots, config.processes, number)
        self._lent: Mapping[str, int] = {}
        """Those that it may use now: a predecessor may still take the rest of its share."""
        self._lent_more = asyncio.Event()
        self._asked: asyncio.Queue[None] = asyncio.Queue()
        """An entry for each phase of the stop."""
        self._phase = 0
        self._health = WorkerHealth(client)
        self._answers: set[asyncio.Task[None]] = set()
        self._plugin: PrometheusPlugin | None = None
        if config.metrics:
            # Its library is loaded only where it is wanted.
            from riverui.cli.worker.metrics import plugin_of

            self._plugin = plugin_of(client)
        # Each process is a client of its own.
        client.id = f"{client.id[: _MOST_ID - len(f'_{os.getpid()}')]}_{os.getpid()}"

    async def run(self) -> None:
        """Start, work, and stop."""
        loop = asyncio.get_running_loop()
        tasks = [
            asyncio.create_task(service(), name=f"riverui {name}")
            for name, service in (("supervisor", self._listen), ("process state", self._tell))
        ]
        loop.add_signal_handler(signal.SIGTERM, self._stop_alone)
        try:
            async with self._client.driver.reading() as db:
                await db.queue_row_get("default")
            self._channel.send({"ready": {"slots": self._slots, "share": self._share}})
            if await self._first(self._lent_more):
                await self._work()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def tell_last(self) -> None:
        """Tell what was counted in all, before the process ends."""
        if self._plugin is not None:
            self._channel.send({"metrics": self._figures(self._plugin)})
        await self._channel.finish()

    def _figures(self, plugin: PrometheusPlugin) -> object:
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
        self._channel.send({"started": client.id})
        while await self._first(self._lent_more):
            await self._take_slots()
        self._health.stopping = True
        ending = asyncio.create_task(self._tell_ending(), name="riverui slots")
        try:
            if not await stop_in_phases(client, self._asked, soft_stop=None, hard_stop=None):
                leave_process()
        finally:
            ending.cancel()
            await asyncio.wait([ending])

    async def _take_slots(self) -> None:
        """Use the slots that were lent by now."""
        client = self._client
        for name, count in tuple(self._lent.items()):
            known = client.config.queues.get(name)
            if known is None:
                await client.queues.add(name, replace(self._queues[name], max_workers=count))
            elif known.max_workers != count:
                await client.queues.scale(name, count)

    async def _first(self, event: asyncio.Event) -> bool:
        """Wait for the event, and clear it; return whether it came before a stop, which this takes
        out of those asked for.
        """
        asked = asyncio.ensure_future(self._asked.get())
        came = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({asked, came}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            came.cancel()
            asked.cancel()
        event.clear()
        return not asked.done() or asked.cancelled()

    async def _listen(self) -> None:
        async for message in self._channel.messages():
            if "lend" in message:
                self._lent = message["lend"]
                self._lent_more.set()
            elif "stop" in message:
                self._stop(message["stop"])
            elif "ask" in message:
                answer = asyncio.create_task(self._answer(message))
                self._answers.add(answer)
                answer.add_done_callback(self._answers.discard)
        if not self._phase:
            log.error("the supervisor is gone: this process stops")
        self._stop_alone()

    def _stop(self, phase: int) -> None:
        """Begin this phase of the stop, and those before it, unless it has begun."""
        for _ in range(phase - self._phase):
            self._asked.put_nowait(None)
        self._phase = max(self._phase, phase)

    def _stop_alone(self) -> None:
        """Stop in three phases that come by themselves."""
        loop = asyncio.get_running_loop()
        soft = self._config.soft_stop.total_seconds()
        self._stop(1)
        loop.call_later(soft, self._stop, 2)
        loop.call_later(soft + self._config.hard_stop.total_seconds(), self._stop, 3)

    async def _answer(self, message: Message) -> None:
        told: object = None
        if message["ask"] == "health":
            told = await self._health.check()
        elif self._plugin is not None:
            told = self._figures(self._plugin)
        self._channel.send({"answer": message["id"], "told": told})

    async def _tell(self) -> None:
        """Tell the supervisor now and then what may be a reason to replace this process."""
        while True:
            runtime = self._client.runtime
            producers = tuple(runtime.producers.values()) if runtime else ()
            worked = sum(producer.slots.counts.worked for producer in producers)
            self._channel.send({"state": {"memory": resident_bytes(), "worked": worked}})
            await asyncio.sleep(_TELL_SECONDS)

    async def _tell_ending(self) -> None:
        """Tell how many slots are still taken, each time they are fewer, while it stops."""
        told = None
        while True:
            runtime = self._client.runtime
            if runtime is None or runtime.stopping:
                taken = self._client.slots_by_queue
                if taken != told:
                    self._channel.send({"taken": taken})
                    told = taken
            await asyncio.sleep(_TELL_ENDING_SECONDS)
