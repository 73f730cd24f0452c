"""The client: inserts jobs, works them, does the maintenance, and lets a program look after its
jobs and queues.
"""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from riverui.engine.admin import AdminMethods
from riverui.engine.client_context import ClientContext
from riverui.engine.config import ClientConfig, QueueConfig
from riverui.engine.deprecated import DeprecatedMethods
from riverui.engine.events import EventKind, Events, Subscription
from riverui.engine.feature_list import DeadLetterBundle, WorkflowBundle, features_of
from riverui.engine.hooks import settle
from riverui.engine.insert.insert_methods import InsertMethods
from riverui.engine.job_results import JobResults
from riverui.engine.lead.elector import ElectionTimes
from riverui.engine.lead.periodic import PeriodicJobs
from riverui.engine.limits import EngineLimits
from riverui.engine.notifier import Notifier
from riverui.engine.pilot import Pilot
from riverui.engine.results import ResultMethods
from riverui.engine.runtime import ClientRuntime, LeaderParts
from riverui.engine.shutdown import serve
from riverui.engine.work import attempt
from riverui.engine.work.context import in_job_without_loop, own_client
from riverui.errors import ConfigError, OutsideJob, QueueAlreadyAdded, QueueNotFound
from riverui.storage.connect import driver_of
from riverui.storage.interface import WORKING

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool
    from sqlalchemy.ext.asyncio import AsyncEngine

    from riverui.storage.interface import Driver

_NOT_OFFERED = frozenset(
    {
        *(name for name in vars(DeprecatedMethods) if not name.startswith("_")),
        "clock",
        "context",
        "enforce_unique",
        "events",
        "extensions",
        "insert_requests",
        "logger",
        "notifier",
        "notify_inserts",
        "notify_limiter",
        "pilot",
        "prepare_insert",
        "results",
        "runtime",
    }
)
"""What the engine's parts use of a client, and old names: an interactive prompt need not offer
them.
"""
_MOST_HOST_BYTES = 60
"""Of a client's id, so that there is room for the time: River's figure."""


class Client(InsertMethods, AdminMethods, ResultMethods, DeprecatedMethods):
    """A client of one River database.

    `database` is a URL, a psycopg AsyncConnectionPool (never closed from here) or a Driver; None
    leaves it to libpq's `PG*` variables. A SQLAlchemy AsyncEngine will do for a client that works
    no jobs. Nothing is connected before the first use. Without `config.queues` the client only
    inserts; with them `start`, or `async with`, begins to work jobs:

        config = ClientConfig(queues={"default": QueueConfig(max_workers=100)}, workers=workers)
        async with Client(url, config) as client:
            await client.insert(SendMail(to="ann@example.com"))
    """

    def __init__(
        self,
        database: str | AsyncConnectionPool[Any] | Driver | AsyncEngine | None = None,
        config: ClientConfig | None = None,
        *,
        clock: Callable[[], datetime] | None = None,
        terms: ElectionTimes | None = None,
        limits: EngineLimits | None = None,
    ) -> None:
        """Make a client. `terms` says how long those of a leader last, `limits` how much is done at
        once; River's figures and our own unless given.
        """
        self.config: ClientConfig = config or ClientConfig()
        """Its queues may be replaced until the start."""
        self.clock: Callable[[], datetime] = clock or _utc_now
        self.driver, self._owns_driver = _driver(database, self.config)
        self.extensions = self.config.extensions
        self.id: str = self.config.id or default_client_id(platform.node(), self.clock())
        self.logger = self.config.logger or logging.getLogger("riverui.engine")
        self.events = Events(self.logger)
        self.periodic_jobs = PeriodicJobs(self.config.periodic_jobs)
        self.pilot = Pilot(features_of(self.config))
        self.dead_letters = DeadLetterBundle(self)
        """Jobs that were kept after their retention; see DeadLetterBundle."""
        self.queues = QueueBundle(self)
        self.workflows = WorkflowBundle(self)
        """Jobs that depend on one another; see WorkflowBundle."""
        self._limits = limits or EngineLimits()
        self._terms = terms or ElectionTimes()
        self.runtime: ClientRuntime | None = None
        """What works the jobs, from the start to the end of a stop."""
        self.results = JobResults(self, limits=self._limits, poll_only=self.config.poll_only)
        self._stopped = asyncio.Event()
        """Set at the end of each life."""
        self._stopping: asyncio.Task[None] | None = None
        self._init_insert_methods()

    def __repr__(self) -> str:
        # Without the database's address, which may hold a password.
        if not self.config.queues:
            return f"<Client {self.id}: inserts only>"
        queues = ", ".join(
            f"{name}={queue.max_workers}" for name, queue in self.config.queues.items()
        )
        return f"<Client {self.id}: {queues}; {'started' if self.started else 'not started'}>"

    def __dir__(self) -> list[str]:
        return sorted(
            name for name in super().__dir__() if name not in _NOT_OFFERED and _is_public(name)
        )

    async def __aenter__(self) -> Self:
        if self.config.queues:
            await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def started(self) -> bool:
        """Whether it works jobs; also while it stops."""
        return self.runtime is not None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind and alias that it has a worker for."""
        return self.config.workers.kinds if self.config.workers is not None else ()

    @property
    def running(self) -> int:
        """How many jobs it works right now."""
        return self.runtime.running if self.runtime else 0

    @property
    def running_by_queue(self) -> dict[str, int]:
        """How many jobs of each queue it works right now."""
        producers = self.runtime.producers if self.runtime else {}
        return {name: producer.slots.running for name, producer in producers.items()}

    @property
    def slots_by_queue(self) -> dict[str, int]:
        """How many jobs of each queue may be at work; while it stops, those that still are."""
        runtime = self.runtime
        if runtime is None:
            return {}
        return {
            name: producer.slots.taken if runtime.stopping else producer.slots.max_workers
            for name, producer in runtime.producers.items()
        }

    @property
    def is_leader(self) -> bool:
        """Whether this client does the maintenance, as far as it knows."""
        elector = self.runtime.elector if self.runtime else None
        return elector is not None and elector.is_leader

    @property
    def last_fetched_at(self) -> datetime | None:
        """When the database last answered a question for jobs."""
        producers = self.runtime.producers.values() if self.runtime else ()
        return max((at for producer in producers if (at := producer.last_fetched_at)), default=None)

    @property
    def notifier(self) -> Notifier | None:
        """What hears notifications, while it works jobs and unless `poll_only`."""
        return self.runtime.notifier if self.runtime else None

    async def start(self) -> None:
        """Begin to work jobs and to stand for election; do nothing when it does already.

        While it stops, it waits until it has stopped, and begins anew. ConfigError without queues
        or workers, DatabaseUnavailable, SchemaMissing and others for what the database has to say;
        then nothing runs.
        """
        while self._stopping is not None:
            # Whoever gives up waiting does not stop the stop.
            await asyncio.shield(self._stopping)
        if self.runtime is not None:
            return
        if not self.config.queues:
            raise ConfigError("queues is empty: this client only inserts jobs.")
        # Whatever is begun from here on finds its client in the context.
        context = copy_context()
        context.run(attempt.client.set, self)
        leader = LeaderParts(inserts=self, periodic_jobs=self.periodic_jobs, terms=self._terms)
        self.runtime = runtime = context.run(ClientRuntime, self.context(), leader)
        self._stopped = asyncio.Event()
        try:
            for hook in self.extensions.client_start:
                await settle(hook.client_start(self))
            await asyncio.get_running_loop().create_task(runtime.start(), context=context)
        except BaseException:
            self.runtime = None
            self._stopped.set()
            await self._tell_stopped()
            raise
        self.logger.info("client %s works on %s", self.id, ", ".join(self.config.queues))

    async def stop(self) -> None:
        """Fetch no more jobs, and return once those at work have ended and are written.

        They are cancelled after `config.soft_stop_timeout`, or with `stop_and_cancel`; what a
        cancellation interrupts gets its attempt back and is available at once.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._take_down(), name="riverui stop")
        # Whoever gives up waiting does not stop the stop.
        await asyncio.shield(self._stopping)

    async def stopped(self) -> None:
        """Wait until the client has stopped, by whichever way; return at once where it does not
        run.
        """
        if self.runtime is not None:
            await self._stopped.wait()

    async def stop_and_cancel(self) -> None:
        """Stop, and cancel the jobs at work at once; also while `stop` is under way."""
        if self.runtime is not None:
            self.runtime.cancel_jobs()
        await self.stop()

    async def stop_and_abandon(self) -> None:
        """Stop without waiting for jobs any longer; also while `stop` is under way.

        They go on as they please, but their outcomes are not written: the jobs are rescued later.
        """
        if self.runtime is not None:
            self.runtime.abandon()
        await self.stop()

    async def run(
        self,
        *,
        soft_stop_timeout: timedelta | None = None,
        hard_stop_timeout: timedelta | None = None,
    ) -> None:
        """Work jobs until SIGINT or SIGTERM, and stop in three phases, a further signal beginning
        the next.

        Jobs may end, for `soft_stop_timeout` (the config's unless given); then they are cancelled;
        and after another `hard_stop_timeout` the process exits without them. None waits for ever.
        """
        soft_stop = (
            self.config.soft_stop_timeout if soft_stop_timeout is None else soft_stop_timeout
        )
        await serve(self, soft_stop=soft_stop, hard_stop=hard_stop_timeout)

    def subscribe(self, *kinds: EventKind | str, size: int = 1000) -> Subscription:
        """Return events of these kinds as they come, with room for `size` not taken yet, until the
        client stops.
        """
        if not self.config.queues:
            raise ConfigError("queues is empty: this client works no jobs, so it has no events.")
        return self.events.subscribe(*kinds, size=size)

    def context(self) -> ClientContext:
        """Return what the parts of this client have in common, with the config as it is now."""
        return ClientContext(
            id=self.id,
            clock=self.clock,
            config=self.config,
            driver=self.driver,
            events=self.events,
            extensions=self.extensions,
            limits=self._limits,
            logger=self.logger,
            pilot=self.pilot,
        )

    def _wake(self, queue: str, *, notified: bool) -> None:
        # Woken twice, it would fetch twice, and the second fetch would hold the next job up.
        if self.runtime is not None and not (notified and self.notifier):
            producer = self.runtime.producers.get(queue)
            if producer is not None:
                producer.wake()

    async def _tell_stopped(self) -> None:
        for hook in self.extensions.client_stop:
            try:
                await settle(hook.client_stop(self))
            except Exception:
                self.logger.exception("a client_stop hook failed")

    async def _take_down(self) -> None:
        try:
            if self.runtime is not None:
                await self.runtime.stop()
                await self._tell_stopped()
                self.logger.info("client %s has stopped", self.id)
        finally:
            self.runtime = None
            self.events.close()
            try:
                await self.results.close()
                if self._owns_driver:
                    await self.driver.close()
            finally:
                self._stopping = None
                self._stopped.set()


AsyncClient = Client
"""The name that River's own Python client has for it."""


def client_from_context() -> Client:
    """Return the client that works this job; OutsideJob elsewhere, and in threads, such as those of
    synchronous jobs, which cannot await it.
    """
    client = own_client()
    if in_job_without_loop():
        raise OutsideJob(
            "The client of a job is awaited, and a thread has no event loop: insert with a"
            " SyncClient, made once for the module."
        )
    return cast(Client, client)


class QueueBundle:
    """The queues that a client works, also while it runs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<QueueBundle: {', '.join(self.names) or 'none'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Those worked now, or from the start on."""
        runtime = self._client.runtime
        return tuple(runtime.producers if runtime else self._client.config.queues)

    async def add(self, name: str, queue: QueueConfig) -> None:
        """Begin to work a queue, at once or with the start. ConfigError where it cannot.

        QueueAlreadyAdded, which is one, where the client works it already.
        """
        client = self._client
        if not client.config.queues:
            raise ConfigError("queues is empty: this client only inserts jobs.")
        client.config.check_queue(name, queue)
        if name in self.names:
            raise QueueAlreadyAdded(name)
        if client.runtime is not None:
            await client.runtime.add_queue(name, queue)
        client.config = replace(client.config, queues={**client.config.queues, name: queue})

    async def scale(self, name: str, max_workers: int) -> None:
        """Work up to so many jobs of a queue at once, from now on; those that run beyond them end
        as they please. QueueNotFound where it is not worked, ConfigError for other numbers.
        """
        client = self._client
        queue = client.config.queues.get(name)
        if queue is None:
            raise QueueNotFound(name)
        queue = replace(queue, max_workers=max_workers)
        if client.runtime is not None:
            client.runtime.scale_queue(name, max_workers)
        client.config = replace(client.config, queues={**client.config.queues, name: queue})

    async def remove(self, name: str) -> None:
        """Leave a queue, and return once its jobs have ended. QueueNotFound where it is not
        worked.
        """
        client = self._client
        if name not in self.names:
            raise QueueNotFound(name)
        if client.runtime is not None:
            await client.runtime.remove_queue(name)
        left = {other: queue for other, queue in client.config.queues.items() if other != name}
        client.config = replace(client.config, queues=left)


def _is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def default_client_id(host: str, now: datetime) -> str:
    """Return an id of host name and time, as River makes it: one word in most terminals."""
    host = host.replace(".", "_").encode()[:_MOST_HOST_BYTES].decode(errors="ignore")
    return f"{host or 'unknown_host'}_{now.astimezone(UTC):%Y_%m_%dT%H_%M_%S_%f}"


def _driver(database: object, config: ClientConfig) -> tuple[Driver, bool]:
    """Return the driver, and whether it is the client's own; ConfigError where it cannot work
    jobs and is to.
    """
    driver, is_own = driver_of(database, schema=config.schema)
    if config.queues and WORKING not in driver.capabilities:
        raise ConfigError(WORKING.missing)
    return driver, is_own


_utc_now = partial(datetime.now, UTC)
