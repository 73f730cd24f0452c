"""What runs between a client's start and its stop, and the order in which it comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

from riverui.engine.dedicated_connection import Line
from riverui.engine.lead.elector import Elector, steady_clock
from riverui.engine.lead.maintenance.queue_maintainer import maintainer
from riverui.engine.notifier import INSERT, LEADERSHIP, Notifier
from riverui.engine.service import keep_running
from riverui.engine.side_loop import Beside, Home
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.completer import Completer
from riverui.engine.work.deadlines import Deadlines
from riverui.engine.work.job_counts import tell_job_counts
from riverui.engine.work.job_executor import Executor
from riverui.engine.work.job_log import JobLogs
from riverui.engine.work.loop_lag import watch_loop
from riverui.engine.work.polls import Polls
from riverui.engine.work.producer import Producer
from riverui.engine.work.queue_reports import QueueReports
from riverui.engine.work.threads import Threads
from riverui.errors import ConfigError, QueueAlreadyAdded, QueueNotFound, TooManyConnections
from riverui.storage.interface import (
    LISTENING,
    NOTIFYING,
    REINDEXING,
    TRANSACTION_STATUS,
    WORKING,
    missing,
)

if TYPE_CHECKING:
    from riverui.engine.client import Client
    from riverui.engine.config import QueueConfig

_LAST_SECONDS = 60.0
"""How long a stop tries to write the last outcomes, should the database be away."""
_LAST_SECONDS_ABANDONED = 3.0
_MOST_THREADS = 64
_NEEDED = (LISTENING, NOTIFYING, REINDEXING, TRANSACTION_STATUS)
"""Optional parts of a driver that the engine makes use of."""
_CONNECTIONS = (
    "A running client keeps up to four connections of its own besides its pool, however many queues"
    " it works: one client with many queues needs fewer than many clients."
)


class Machinery:
    """One working life of a client."""

    def __init__(self, client: Client) -> None:
        config = client.config
        if config.workers is None or not config.workers.kinds:
            raise ConfigError("workers is empty: add a worker before starting the client.")
        config.check_kinds()
        self.client = client
        self.client_id = client.id
        self.clock = client.clock
        self.config = config
        self.driver = client.driver
        self.events = client.events
        self.extensions = client.extensions
        self.logger = client.logger
        self.workers = config.workers
        self.elector: Elector | None = None
        self.stuck_jobs = 0
        self.producers: dict[str, Producer] = {}
        self.fetching = Line(self.driver)
        self.polls = Polls(self)
        self.reports = QueueReports(self)
        listens = not config.poll_only and LISTENING in self.driver.capabilities
        self.notifier = Notifier(self.driver, self.logger) if listens else None
        self._abandoned = asyncio.Event()
        self._changing = asyncio.Lock()
        self._completing = Line(self.driver)
        self._deadlines = Deadlines(
            config.job_stuck_threshold.total_seconds(), lambda attempt: attempt.slots.stuck(attempt)
        )
        self._hurry = asyncio.Event()
        self._logs = JobLogs(client) if config.log_jobs else None
        self._services: list[asyncio.Task[None]] = []
        self._stopping = False
        self._threads = Threads(config.threads or 0)
        self._completer = Completer(
            self._completing, self.events, clock=self.clock, logger=self.logger
        )
        self._completion: asyncio.Task[None] | None = None
        self.executor = Executor(
            config,
            self.extensions,
            clock=self.clock,
            completer=self._completer,
            deadlines=self._deadlines,
            logger=self.logger,
            logs=self._logs,
            threads=self._threads,
        )

    @property
    def running(self) -> int:
        """Jobs at work."""
        return sum(producer.running for producer in self.producers.values())

    async def start(self) -> None:
        """Brings everything up, or takes down what came up and raises why."""
        for part in missing(self.driver):
            if part in _NEEDED:
                self.logger.info("not supported by %s: %s", self.driver.product, part.missing)
        try:
            if self._logs is not None:
                self._logs.begin()
                self._serve("job logs", self._logs.run)
            self._completion = asyncio.create_task(self._completer.run(), name="riverui completer")
            if self.notifier is not None:
                self.notifier.subscribe(INSERT, self._on_insert)
                self.notifier.on_reconnect(self.reports.look)
                await self.notifier.connect()
                self._serve("notifier", self.notifier.run)
            self._serve("queue reports", self.reports.run)
            self._serve("watchdog", lambda: watch_loop(self.at_work, self.logger))
            self._serve("job counts", lambda: tell_job_counts(self.producers, self.logger))
            for name, queue in self.config.queues.items():
                await self.add_queue(name, queue)
            if not self.config.leader_election_disabled:
                self.elector = self._campaign()
        except BaseException as error:
            self.abandon()
            await self.stop()
            if isinstance(error, TooManyConnections):
                raise TooManyConnections(f"{error} {_CONNECTIONS}") from error
            raise

    async def add_queue(self, name: str, queue: QueueConfig) -> None:
        """Begins to serve a queue. QueueAlreadyAdded where it is served already."""
        self.config.check_queue(name, queue)
        async with self._changing:
            if name in self.producers:
                raise QueueAlreadyAdded(name)
            producer = Producer(name, queue, self)
            await producer.start()
            self.producers[name] = producer
            if producer.look_again:
                self.reports.look()
            if self.config.threads is None:
                self._threads.most = min(_MOST_THREADS, self._threads.most + queue.max_workers)
            if self._stopping:
                producer.stop()

    async def remove_queue(self, name: str) -> None:
        """Leaves a queue once its jobs have ended. QueueNotFound where it is not served."""
        producer = self.producers.get(name)
        if producer is None:
            raise QueueNotFound(name)
        producer.stop()
        await producer.drained()
        await producer.close()
        if self.producers.get(name) is producer:
            del self.producers[name]

    def cancel_jobs(self) -> None:
        """Cancels the jobs at work; with or after `stop`."""
        self._hurry.set()
        for producer in self.producers.values():
            producer.stop()
            producer.end_jobs()

    def abandon(self) -> None:
        """Lets `stop` wait for no job any more."""
        self._abandoned.set()

    async def stop(self) -> None:
        """Fetches no more, waits for the jobs (after the soft stop timeout cancels them), takes all
        down.
        """
        self._stopping = True
        for producer in self.producers.values():
            producer.stop()
        await self._drain()
        producers = tuple(self.producers.values())
        if left := self.running:
            self.logger.error(
                "%s jobs are still running: they are abandoned and will be rescued", left
            )
        await asyncio.gather(*(producer.close() for producer in producers))
        await self._end_services()
        if self._completion is not None:
            self._completer.finish(
                _LAST_SECONDS_ABANDONED if self._abandoned.is_set() else _LAST_SECONDS
            )
            await self._completion
        if self._logs is not None:
            self._logs.end()
        self._deadlines.close()
        self._threads.close()
        await self.fetching.close()
        await self._completing.close()

    def _campaign(self) -> Elector:
        client = self.client
        aside = Beside("riverui-leader")
        elector = Elector(
            WORKING.on(self.driver).apart(),
            self.client_id,
            maintainer(
                self.driver,
                self.config,
                clock=self.clock,
                periodic_jobs=client.periodic_jobs,
                request=client.prepare_insert,
                insert_requests=client.insert_requests,
                notify_inserts=client.notify_inserts,
                logger=self.logger,
                hooks=self.extensions.periodic_jobs_start,
            ).lead,
            home=Home(asyncio.get_running_loop(), steady_clock),
            logger=self.logger,
            terms=client.terms,
        )
        if self.notifier is not None:
            self.notifier.subscribe(
                LEADERSHIP, lambda message: aside.tell(elector.notified, message)
            )
        self._serve(
            "elector",
            lambda: aside.run(lambda: keep_running("elections", elector.run, self.logger)),
        )
        return elector

    async def _drain(self) -> None:
        """Waits for the jobs to end: gently, then with a push, then not at all."""
        soft = self.config.soft_stop_timeout
        drained = asyncio.ensure_future(self._all_drained())
        try:
            if not await _either(
                drained,
                self._hurry,
                self._abandoned,
                seconds=None if soft is None else soft.total_seconds(),
            ):
                if not self._hurry.is_set() and not self._abandoned.is_set():
                    self.logger.warning("the jobs took too long to finish and are being cancelled")
                self.cancel_jobs()
                await _either(drained, self._abandoned)
        finally:
            drained.cancel()

    async def _all_drained(self) -> None:
        for producer in tuple(self.producers.values()):
            await producer.drained()

    def at_work(self) -> Iterable[Attempt]:
        """What all queues work right now."""
        return chain.from_iterable(producer.attempts for producer in self.producers.values())

    def _on_insert(self, message: dict[str, Any]) -> None:
        queue = message.get("queue")
        if isinstance(queue, str) and (producer := self.producers.get(queue)):
            producer.wake()

    def _serve(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._services.append(
            asyncio.create_task(keep_running(name, run, self.logger), name=f"riverui {name}")
        )

    async def _end_services(self) -> None:
        for service in self._services:
            service.cancel()
        await asyncio.gather(*self._services, return_exceptions=True)
        if self.notifier is not None:
            await self.notifier.close()


async def _either(
    wanted: asyncio.Future[None], *instead: asyncio.Event, seconds: float | None = None
) -> bool:
    """Waits for `wanted`, unless one of the events or the time comes first; whether it came."""
    coming: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in instead]
    try:
        await asyncio.wait([wanted, *coming], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for event in coming:
            event.cancel()
    return wanted.done()
