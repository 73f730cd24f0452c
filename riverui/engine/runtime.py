"""What runs from a client's start to its stop, and the order in which it starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from riverui.engine.client_context import ClientContext
from riverui.engine.config import QueueConfig
from riverui.engine.lead.elector import ElectionTimes, Elector, Lead, steady_clock
from riverui.engine.lead.maintenance.queue_maintainer import (
    Inserts,
    QueueMaintainer,
    queue_maintainer,
)
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.lead.periodic import PeriodicJobs
from riverui.engine.lead.stand_in import StandIn
from riverui.engine.notifier import INSERT, JOB_WANTED, LEADERSHIP, Notifier
from riverui.engine.pilot import ProducerStatus
from riverui.engine.service import keep_running
from riverui.engine.side_loop import HomeLoop
from riverui.engine.waiting import pass_on_cancellation, within
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.fetch_pace import FetchPace
from riverui.engine.work.job_counts import log_job_counts
from riverui.engine.work.job_runner import JobRunner
from riverui.engine.work.loop_lag import watch_loop
from riverui.engine.work.lost_fetches import LostFetches
from riverui.engine.work.producer import Producer, ProducerParts
from riverui.engine.work.queue_poller import QueuePoller
from riverui.engine.work.queue_reports import QueueReports
from riverui.engine.work.stuck_jobs import StuckJobs
from riverui.errors import (
    ConfigError,
    NotSupported,
    QueueAlreadyAdded,
    QueueNotFound,
    TooManyConnections,
)
from riverui.features.figures.engine.client_figures import ClientFigures
from riverui.features.heartbeats.engine.heartbeats import Heartbeats
from riverui.storage.interface import LISTENING, SQL

_FINAL_WRITE_SECONDS = 60.0
"""Seconds that a stop tries to write the last outcomes while the database is unavailable: lost ones
need a rescue, an hour later.
"""
_FINAL_WRITE_SECONDS_ABANDONED = 3.0
"""The same after `stop_and_abandon`."""
_NOTIFY_SECONDS = 5.0
"""Seconds for features to process that a queue was left: without this call they notice later."""
_MAX_THREADS = 64
"""Default maximum of threads for synchronous jobs: more would only compete for the interpreter."""
_CONNECTIONS = (
    "A running client keeps up to five connections of its own besides its pool, however many queues"
    " it works: one client with many queues needs fewer than many clients, and many clients can"
    " share a pool and all its connections (dedicated_connections=False)."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaderParts:
    """What a client also needs to lead."""

    inserts: Inserts
    periodic_jobs: PeriodicJobs
    terms: ElectionTimes


class ClientRuntime:
    """The running parts of a client, from one start to the next stop."""

    def __init__(self, client: ClientContext, leader: LeaderParts) -> None:
        config, driver, logger = client.config, client.driver, client.logger
        if config.workers is None or not config.workers.kinds:
            raise ConfigError("workers is empty: add a worker before starting the client.")
        config.check_kinds()
        self.elector: Elector | None = None
        listens = not config.poll_only and LISTENING in driver.capabilities
        self.notifier = (
            Notifier(
                driver,
                logger,
                backoff=client.limits.backoff,
                shared=not config.dedicated_connections,
            )
            if listens
            else None
        )
        self.producers: dict[str, Producer] = {}
        self.runner = JobRunner(client, threads=config.threads or 0)
        self._abandoned = asyncio.Event()
        self._changing = asyncio.Lock()
        self._client = client
        self._fetching, self._fetching_beside = client.connection(), client.connection()
        self.heartbeats = Heartbeats(client, self.producers)
        self._figures = ClientFigures(client, self.runner.count)
        self._hurry = asyncio.Event()
        self._leader = leader
        self._logger = logger
        self._lost = LostFetches(client, self.producers, self.runner.unwritten_ids)
        self._producer_parts = ProducerParts(
            connection=self._fetching,
            second_connection=self._fetching_beside,
            executor=self.runner.executor,
            lost=self._lost,
            notifier=self.notifier,
            pace=FetchPace(client.limits.fetches_per_second),
            poller=QueuePoller(self._fetching, clock=client.clock, logger=logger),
            signs=self.heartbeats,
            stuck_jobs=StuckJobs(config.stuck_handler, logger),
        )
        limits = client.limits
        self._reports = QueueReports(
            driver,
            self.producers,
            self.at_work,
            logger=logger,
            look_seconds=(
                limits.look_seconds if self.notifier else limits.look_seconds_without_notifier
            ),
        )
        self._services: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether it has stopped fetching jobs."""
        return self._stopping

    @property
    def running(self) -> int:
        """How many jobs are running."""
        return sum(producer.slots.running for producer in self.producers.values())

    async def start(self) -> None:
        """Start everything; on an error, stop what has started and raise it."""
        client = self._client
        try:
            self.runner.start()
            if self.runner.logs is not None:
                self._serve("job logs", self.runner.logs.run)
            if self.notifier is not None:
                await self._listen(self.notifier)
            if LISTENING not in client.driver.capabilities:
                product = client.driver.product
                self._logger.info("not supported by %s: %s", product, LISTENING.missing)
            self._serve("lost fetches", self._lost.run)
            self._serve("queue reports", self._reports.run)
            self._serve("loop lag", lambda: watch_loop(self.at_work, client.limits, self._logger))
            self._serve("job counts", lambda: log_job_counts(self.producers, self._logger))
            if client.config.charts:
                await self._figures.start()
                self._serve("figures", self._figures.run)
            for feature in client.pilot.features:
                for name, run in feature.client_services(client).items():
                    self._serve(name, run)
            if client.pilot.keeps_alive:
                self._serve("keep-alive", self._keep_alive)
            # Jobs are fetched only when the database knows which client they belong to.
            await self.heartbeats.start()
            for name, queue in client.config.queues.items():
                await self.add_queue(name, queue)
            self._start_maintenance()
        except BaseException as error:
            self.abandon()
            await self.stop()
            if isinstance(error, TooManyConnections):
                raise TooManyConnections(f"{error} {_CONNECTIONS}") from error
            raise

    async def _listen(self, notifier: Notifier) -> None:
        """Start listening for notifications; poll if the database turns out to send none."""
        notifier.subscribe(INSERT, self._on_insert)
        notifier.subscribe(JOB_WANTED, self.runner.wanted.want)
        notifier.on_reconnect(self._reports.look)
        try:
            await notifier.connect()
        except NotSupported:
            self.notifier = None
            self._producer_parts = replace(self._producer_parts, notifier=None)
            self._reports.look_seconds = self._client.limits.look_seconds_without_notifier
        else:
            self._serve("notifier", notifier.run)

    async def add_queue(self, name: str, queue: QueueConfig) -> None:
        """Start working a queue. QueueAlreadyAdded if it is worked already."""
        config = self._client.config
        config.check_queue(name, queue)
        async with self._changing:
            if name in self.producers:
                raise QueueAlreadyAdded(name)
            producer = Producer(name, queue, self._client, self._producer_parts)
            self.heartbeats.admit(producer)
            try:
                await producer.start()
            except BaseException:
                await self._notify_stopped([producer.status])
                raise
            self.producers[name] = producer
            if producer.look_again:
                self._reports.look()
            self._count_threads()
            if self._stopping:
                producer.stop()

    def scale_queue(self, name: str, max_workers: int) -> None:
        """Set how many jobs of a queue run at once. QueueNotFound if it is not worked."""
        producer = self.producers.get(name)
        if producer is None:
            raise QueueNotFound(name)
        producer.scale(max_workers)
        self._count_threads()

    async def remove_queue(self, name: str) -> None:
        """Stop working a queue, and return once its jobs have ended. QueueNotFound if it is not
        worked.
        """
        producer = self.producers.get(name)
        if producer is None:
            raise QueueNotFound(name)
        producer.stop()
        await producer.slots.drained.wait()
        await producer.close()
        if self.producers.get(name) is producer:
            del self.producers[name]
            await self._notify_stopped([producer.status])

    def cancel_jobs(self) -> None:
        """Cancel the running jobs; with or after `stop`."""
        self._hurry.set()
        for producer in self.producers.values():
            producer.stop()
            producer.end_jobs()

    def abandon(self) -> None:
        """Make `stop` wait for no more jobs."""
        self._abandoned.set()

    async def stop(self) -> None:
        """Stop fetching, wait for the jobs (cancelling them after the soft stop timeout), and stop
        everything.
        """
        self._stopping = True
        for producer in self.producers.values():
            producer.stop()
        await self._drain()
        producers = tuple(self.producers.values())
        if left := self.running:
            self._logger.error(
                "%s jobs are still running: they are abandoned and will be rescued", left
            )
        await asyncio.gather(*(producer.close() for producer in producers))
        await self._end_services()
        await self.runner.stop(
            _FINAL_WRITE_SECONDS_ABANDONED if self._abandoned.is_set() else _FINAL_WRITE_SECONDS
        )
        await self._figures.stop()
        lost = await self._lost.finish()
        await self.heartbeats.stop(jobs_left=lost or left + self.runner.unwritten > 0)
        await self._fetching.close()
        await self._fetching_beside.close()
        await self._notify_stopped([producer.status for producer in producers])

    def at_work(self) -> Iterable[Attempt]:
        """Return the running attempts of all queues."""
        return chain.from_iterable(
            producer.slots.attempts.values() for producer in self.producers.values()
        )

    def _start_maintenance(self) -> None:
        """Stand for election, and check whether riverui's part of the maintenance needs this
        client.
        """
        client, leader, pilot = self._client, self._leader, self._client.pilot
        context = ServiceContext(
            driver=client.driver,
            clock=client.clock,
            logger=client.logger,
            delete_before=pilot.delete_before if pilot.cleans else None,
            notifier=self.notifier,
            retention=client.config.retention,
        )
        maintainer = queue_maintainer(
            context,
            client.config,
            leader.periodic_jobs,
            leader.inserts,
            hooks=client.extensions.periodic_jobs_start,
            pilot=pilot,
        )
        if not client.config.leader_election_disabled:
            self.elector = self._campaign(maintainer.lead)
        if SQL in client.driver.capabilities:
            stand_in = StandIn(
                client,
                maintainer.stand_in,
                leads=self._leads,
                lacks=lambda: self._missing_under_other_leader(maintainer),
            )
            self._serve("stand-in", stand_in.run)

    def _leads(self) -> bool:
        return self.elector is not None and self.elector.is_leader

    def _missing_under_other_leader(self, maintainer: QueueMaintainer) -> Iterator[str]:
        """Yield what does not happen for this client while a client of another kind leads."""
        durable = maintainer.enqueuer.durable
        jobs = self._leader.periodic_jobs.by_handle().values()
        if any(job.id is None or not durable for job in jobs):
            yield "no periodic jobs of this client are inserted, except durable ones"
        for feature in self._client.pilot.features:
            if feature.lost_without:
                yield feature.lost_without

    def _campaign(self, lead: Lead) -> Elector:
        client = self._client
        side = client.beside("riverui-leader")
        elector = Elector(
            client.driver_beside(),
            client.id,
            lead,
            home=HomeLoop(asyncio.get_running_loop(), steady_clock),
            logger=client.logger,
            keeps_connection=client.config.dedicated_connections,
            terms=self._leader.terms,
        )
        if self.notifier is not None:
            self.notifier.subscribe(
                LEADERSHIP, lambda message: side.call_soon(elector.notified, message)
            )
        self._serve(
            "elector",
            lambda: side.run(lambda: keep_running("elections", elector.run, client.logger)),
        )
        return elector

    def _count_threads(self) -> None:
        """Allow a thread for each slot; never fewer than before, as they may be busy."""
        if self._client.config.threads is None:
            slots = sum(producer.config.max_workers for producer in self.producers.values())
            threads = self.runner.threads
            threads.most = max(threads.most, min(_MAX_THREADS, slots))

    async def _drain(self) -> None:
        """Wait for the jobs to end: first undisturbed, then cancelled, then not at all."""
        soft = self._client.config.soft_stop_timeout
        drained = asyncio.ensure_future(self._all_drained())
        try:
            if not await _either(
                drained,
                self._hurry,
                self._abandoned,
                seconds=None if soft is None else soft.total_seconds(),
            ):
                if not self._hurry.is_set() and not self._abandoned.is_set():
                    self._logger.warning("the jobs took too long to finish and are being cancelled")
                self.cancel_jobs()
                await _either(drained, self._abandoned)
            if self._abandoned.is_set():
                await self.runner.abandon()
        finally:
            drained.cancel()

    async def _all_drained(self) -> None:
        for producer in tuple(self.producers.values()):
            await producer.slots.drained.wait()

    async def _keep_alive(self) -> None:
        """Report the worked queues to the features at intervals; an error is logged, and skips only
        that report.
        """
        while True:
            pass_on_cancellation()
            await asyncio.sleep(self._client.limits.keep_alive_seconds)
            producers = [producer.status for producer in self.producers.values()]
            try:
                async with self._client.driver.transaction() as transaction:
                    await self._client.pilot.producer_keep_alive(transaction, producers)
            except Exception as error:
                self._logger.warning("features failed at the keep-alive: %s", error)

    async def _notify_stopped(self, producers: Sequence[ProducerStatus]) -> None:
        """Notify the features that queues are no longer worked; an error is logged."""
        if not producers or not self._client.pilot.stops:
            return
        try:
            await within(_NOTIFY_SECONDS, self._stop_producers(producers))
        except Exception as error:
            self._logger.warning("features were not notified of left queues: %s", error)

    async def _stop_producers(self, producers: Sequence[ProducerStatus]) -> None:
        async with self._client.driver.transaction() as transaction:
            for producer in producers:
                await self._client.pilot.producer_stop(transaction, producer)

    def _on_insert(self, message: dict[str, Any]) -> None:
        queue = message.get("queue")
        if isinstance(queue, str) and (producer := self.producers.get(queue)):
            producer.notified()

    def _serve(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._services.append(
            asyncio.create_task(keep_running(name, run, self._logger), name=f"riverui {name}")
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
    """Wait for `wanted`, one of the events or the timeout; return whether `wanted` is done."""
    coming: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in instead]
    try:
        await asyncio.wait([wanted, *coming], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for event in coming:
            event.cancel()
    return wanted.done()
