"""The client: inserts jobs, works them, does the maintenance, and manages jobs and queues."""

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
"""Attributes that the engine uses, and old names: left out of `dir()`, so that prompts do not offer
them.
"""
_MAX_HOST_BYTES = 60
"""Bytes of the host name in a client's id, which leaves room for the time: River's figure."""


class Client(InsertMethods, AdminMethods, ResultMethods, DeprecatedMethods):
    """A client of one River database.

    `database` is a URL, a psycopg AsyncConnectionPool (which the client never closes) or a Driver;
    None leaves it to libpq's `PG*` variables. A SQLAlchemy AsyncEngine works for a client that
    works no jobs. It connects at first use. Without `config.queues` the client only inserts; with
    them `start`, or `async with`, begins to work jobs:

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
        """Make a client. `terms` are the lengths of a leader's terms (default: River's), `limits`
        how much is done at once.
        """
        self.config: ClientConfig = config or ClientConfig()
        """`queues` may be replaced until the start."""
        self.clock: Callable[[], datetime] = clock or _utc_now
        self.driver, self._owns_driver = _driver(database, self.config)
        self.extensions = self.config.extensions
        self.id: str = self.config.id or default_client_id(platform.node(), self.clock())
        self.logger = self.config.logger or logging.getLogger("riverui.engine")
        self.events = Events(self.logger)
        self.periodic_jobs = PeriodicJobs(self.config.periodic_jobs)
        self.pilot = Pilot(features_of(self.config))
        self.dead_letters = DeadLetterBundle(self)
        """Methods for dead letters; see DeadLetterBundle."""
        self.queues = QueueBundle(self)
        self.workflows = WorkflowBundle(self)
        """Methods for workflows; see WorkflowBundle."""
        self._limits = limits or EngineLimits()
        self._terms = terms or ElectionTimes()
        self.runtime: ClientRuntime | None = None
        """The running parts of the client, from its start to the end of its stop."""
        self.results = JobResults(self, limits=self._limits, poll_only=self.config.poll_only)
        self._stopped = asyncio.Event()
        """Set when the client has stopped."""
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
        """Whether the client works jobs; True also while it stops."""
        return self.runtime is not None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind and alias that the client has a worker for."""
        return self.config.workers.kinds if self.config.workers is not None else ()

    @property
    def running(self) -> int:
        """How many jobs the client is working."""
        return self.runtime.running if self.runtime else 0

    @property
    def running_by_queue(self) -> dict[str, int]:
        """How many jobs of each queue the client is working."""
        producers = self.runtime.producers if self.runtime else {}
        return {name: producer.slots.working for name, producer in producers.items()}

    @property
    def slots_by_queue(self) -> dict[str, int]:
        """How many jobs of each queue may run; while the client stops, those still running."""
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
        """When the last fetch of jobs succeeded."""
        producers = self.runtime.producers.values() if self.runtime else ()
        return max((at for producer in producers if (at := producer.last_fetched_at)), default=None)

    @property
    def notifier(self) -> Notifier | None:
        """The notifier, while the client works jobs; None with `poll_only`."""
        return self.runtime.notifier if self.runtime else None

    async def start(self) -> None:
        """Start working jobs and standing for election; do nothing if already started.

        During a stop, wait until it is over and start again. ConfigError without queues or workers;
        DatabaseUnavailable, SchemaMissing and other DatabaseErrors. After an error nothing is
        running.
        """
        while self._stopping is not None:
            # Cancelling the wait does not cancel the stop.
            await asyncio.shield(self._stopping)
        if self.runtime is not None:
            return
        if not self.config.queues:
            raise ConfigError("queues is empty: this client only inserts jobs.")
        # Tasks started below find their client in the context.
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
            await self._run_stop_hooks()
            raise
        self.logger.info("client %s works on %s", self.id, ", ".join(self.config.queues))

    async def stop(self) -> None:
        """Stop fetching jobs, and return when the running ones have ended and their outcomes are
        written.

        They are cancelled after `config.soft_stop_timeout`, or by `stop_and_cancel`; a cancelled
        job gets its attempt back and is available at once.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._take_down(), name="riverui stop")
        # Cancelling the wait does not cancel the stop.
        await asyncio.shield(self._stopping)

    async def stopped(self) -> None:
        """Wait until the client has stopped; return at once if it is not running."""
        if self.runtime is not None:
            await self._stopped.wait()

    async def stop_and_cancel(self) -> None:
        """Stop, and cancel running jobs at once; also during a `stop`."""
        if self.runtime is not None:
            self.runtime.cancel_jobs()
        await self.stop()

    async def stop_and_abandon(self) -> None:
        """Stop without waiting for jobs any longer; also during a `stop`.

        They keep running, but their outcomes are not written: the jobs are rescued later.
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

        First it waits `soft_stop_timeout` for running jobs (default: the config's), then it cancels
        them, and after another `hard_stop_timeout` the process exits. None waits for ever.
        """
        soft_stop = (
            self.config.soft_stop_timeout if soft_stop_timeout is None else soft_stop_timeout
        )
        await serve(self, soft_stop=soft_stop, hard_stop=hard_stop_timeout)

    def subscribe(self, *kinds: EventKind | str, size: int = 1000) -> Subscription:
        """Return a subscription to events of these kinds until the client stops; it buffers up to
        `size` events.
        """
        if not self.config.queues:
            raise ConfigError("queues is empty: this client works no jobs, so it has no events.")
        return self.events.subscribe(*kinds, size=size)

    def context(self) -> ClientContext:
        """Return what this client's parts share, with the current config."""
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
        # Two wake-ups would cause two fetches, and the second would delay the next job.
        if self.runtime is not None and not (notified and self.notifier):
            producer = self.runtime.producers.get(queue)
            if producer is not None:
                producer.wake()

    async def _run_stop_hooks(self) -> None:
        for hook in self.extensions.client_stop:
            try:
                await settle(hook.client_stop(self))
            except Exception:
                self.logger.exception("a client_stop hook failed")

    async def _take_down(self) -> None:
        try:
            if self.runtime is not None:
                await self.runtime.stop()
                await self._run_stop_hooks()
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
"""The name of this class in River's own Python client."""


def client_from_context() -> Client:
    """Return the client that works the current job. OutsideJob elsewhere, and in threads, such as
    those of synchronous jobs, which cannot await it.
    """
    client = own_client()
    if in_job_without_loop():
        raise OutsideJob(
            "The client of a job is awaited, and a thread has no event loop: insert with a"
            " SyncClient, made once for the module."
        )
    return cast(Client, client)


class QueueBundle:
    """The queues that a client works; they can change while it runs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<QueueBundle: {', '.join(self.names) or 'none'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Queues that are worked now, or will be after the start."""
        runtime = self._client.runtime
        return tuple(runtime.producers if runtime else self._client.config.queues)

    async def add(self, name: str, queue: QueueConfig) -> None:
        """Start working a queue, now or when the client starts. ConfigError if the settings do not
        allow it.

        QueueAlreadyAdded, a ConfigError, if the client works it already.
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
        """Set how many jobs of a queue run at once; excess running jobs are not interrupted.
        QueueNotFound if the queue is not worked, ConfigError for an invalid number.
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
        """Stop working a queue, and return once its jobs have ended. QueueNotFound if it is not
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
    """Return an id of host name and time, in River's format: one word in most terminals."""
    host = host.replace(".", "_").encode()[:_MAX_HOST_BYTES].decode(errors="ignore")
    return f"{host or 'unknown_host'}_{now.astimezone(UTC):%Y_%m_%dT%H_%M_%S_%f}"


def _driver(database: object, config: ClientConfig) -> tuple[Driver, bool]:
    """Return the driver, and whether the client owns it. ConfigError if the client has queues and
    the driver cannot work jobs.
    """
    driver, is_own = driver_of(database, schema=config.schema)
    if config.queues and WORKING not in driver.capabilities:
        raise ConfigError(WORKING.missing)
    return driver, is_own


_utc_now = partial(datetime.now, UTC)
