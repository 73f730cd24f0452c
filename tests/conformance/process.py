"""One process of the suite: its connections, its working client, and what its requests leave
behind.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import partial
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from riverui import (
    NO_LIMIT,
    Client,
    ClientConfig,
    ErrorResult,
    EventKind,
    InsertOpts,
    JobRow,
    PeriodicInterval,
    PeriodicJob,
    QueueConfig,
    UniqueOpts,
    Workers,
    connect,
)
from riverui.engine.lead.elector import ElectionTimes
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.job_scheduler import JobScheduler
from riverui.storage.interface import Driver
from tests.conformance.echo import Echo, EchoWorker, Stats, Tracer
from tests.conformance.params import Start
from tests.conformance.shapes import span


class Code(IntEnum):
    """The contract's codes of errors."""

    PARSE_ERROR = -32700
    METHOD_NOT_FOUND = -32601
    INVALID_REQUEST = -32600
    INVALID_PARAMS = -32602
    INTERNAL = -32000
    NOT_FOUND = -32001
    REJECTED = -32002
    DATABASE_ERROR = -32003
    UNSUPPORTED = -32004


_CONNECTIONS = 8
"""Connections of the pool: with the working client's own, less than the 20 that the contract
allows.
"""
_BUSY_SECONDS = 5.0
"""For which a transaction of ours waits until another one of the file has ended."""
_STOP_SECONDS = 8.0
"""Seconds that a stop waits for jobs that ignore their cancellation: less than the 10 s after which
River's own adapter gives up.
"""


class Refused(Exception):
    """A request is answered with this code of the contract."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


Transaction = psycopg.AsyncConnection[Any] | sqlite3.Connection


async def begin(url: str) -> Transaction:
    """Begin a transaction on a connection of its own."""
    if url.startswith("sqlite:"):
        path = url.removeprefix("sqlite:///")
        file = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        file.execute("begin immediate")
        return file
    connection = await psycopg.AsyncConnection.connect(url)
    # psycopg begins with the first statement, and `now()` would be that late.
    await connection.execute("select 1")
    return connection


async def end(transaction: Transaction, *, commit: bool) -> None:
    """End a transaction and its connection."""
    if isinstance(transaction, sqlite3.Connection):
        with closing(transaction):
            (transaction.commit if commit else transaction.rollback)()
        return
    async with transaction:
        await (transaction.commit if commit else transaction.rollback)()


class Adapter:
    """One process of the suite: its connections, and what its requests have left behind."""

    def __init__(self, url: str, application_name: str, profile: str) -> None:
        self.application_name = application_name
        self.now: datetime | None = None
        self.profile = profile
        self.running: Client | None = None
        self.stats = Stats()
        self.transactions: dict[str, Transaction] = {}
        self._barriers: dict[str, asyncio.Event] = {}
        self._claim_barrier: str | None = None
        self._clients: dict[str, Client] = {}
        self._listening: asyncio.Task[None] | None = None
        self._url = url
        self.is_file = url.startswith("sqlite:")
        self._file: Driver | None = connect(url) if self.is_file else None
        if self.is_file:
            return
        self._url = url = make_conninfo(url, application_name=application_name)
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[Any]] = AsyncConnectionPool(
            url,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=_CONNECTIONS,
            open=False,
            # Faults end connections that lie in the pool.
            check=AsyncConnectionPool.check_connection,
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the database open, and end what is left of the requests."""
        database = self._file or self._pool
        if self._file is None:
            await self._pool.open()
        try:
            yield
            if self.running is not None:
                await self.stop(cancel=True)
            for transaction in self.transactions.values():
                await end(transaction, commit=False)
        finally:
            await database.close()

    def connection(self) -> Any:
        """Lend a connection of the pool."""
        return self._pool.connection()

    async def rows(self, sql: str, **params: Any) -> list[dict[str, Any]]:
        """Run a statement by itself and return its rows."""
        async with self._pool.connection() as connection:
            cursor = await connection.cursor(row_factory=dict_row).execute(sql, params)
            return await cursor.fetchall() if cursor.description else []

    async def row(self, sql: str, **params: Any) -> dict[str, Any]:
        """Run a statement and return its row; not_found without one."""
        rows = await self.rows(sql, **params)
        if not rows:
            raise Refused(Code.NOT_FOUND, "there is no such row")
        return rows[0]

    def driver(self, schema: str) -> Driver:
        """Return the file's driver, or one on the pool."""
        return self._file or connect(pool=self._pool, schema=schema or None)

    def client(self, schema: str = "") -> Client:
        """Return the working client, or else one that only inserts."""
        if self.running is not None:
            if (self.running.config.schema or "") != schema:
                raise Refused(Code.REJECTED, "the running client has another schema")
            return self.running
        if schema not in self._clients:
            self._clients[schema] = Client(self.driver(schema), ClientConfig(schema=schema or None))
        return self._clients[schema]

    def call(self, name: str, transaction: Any, schema: str = "") -> Callable[..., Awaitable[Any]]:
        """Return a method of the client, for the transaction if there is one."""
        client = self.client(schema)
        if transaction is None:
            return getattr(client, name)  # type: ignore[no-any-return]
        return partial(getattr(client, f"{name}_tx"), transaction)

    def barrier(self, name: str) -> asyncio.Event:
        """Return a barrier; not_found if it was not created."""
        if name not in self._barriers:
            raise Refused(Code.NOT_FOUND, f"there is no barrier {name!r}")
        return self._barriers[name]

    def create_barrier(self, name: str) -> None:
        """Create a barrier."""
        if name in self._barriers and not self._barriers[name].is_set():
            raise Refused(Code.REJECTED, f"there is a barrier {name!r} already")
        self._barriers[name] = asyncio.Event()

    def release_barrier(self, name: str) -> None:
        """Let everything go on that waits at the barrier, now or later."""
        self.barrier(name).set()

    def clear_barriers(self) -> None:
        """Release every barrier."""
        for name in tuple(self._barriers):
            self.release_barrier(name)

    async def begin(self, handle: str) -> None:
        """Begin a transaction."""
        if handle in self.transactions:
            raise Refused(Code.REJECTED, f"the transaction {handle!r} is open already")
        self.transactions[handle] = await begin(self._url)

    def transaction(self, handle: str) -> Transaction:
        """Return an open transaction."""
        if handle not in self.transactions:
            raise Refused(Code.NOT_FOUND, f"there is no transaction {handle!r}")
        return self.transactions[handle]

    async def start(self, start: Start) -> None:
        """Start the working client."""
        if self.running is not None:
            raise Refused(Code.REJECTED, "a client is running already")
        if start.periodic_unique and not start.periodic_run_on_start:
            raise Refused(Code.INVALID_PARAMS, "periodic_unique needs periodic_run_on_start")
        driver = self.driver(start.schema)
        if start.claim_barrier is not None:
            if start.claim_barrier not in self._barriers:
                raise Refused(Code.INVALID_PARAMS, f"there is no barrier {start.claim_barrier!r}")
            driver = holding_claim(driver, self.barrier(start.claim_barrier))
        self.stats = Stats()
        # The leader's intervals are River's, and no settings: a process of tests may shorten them.
        JobRescuer.interval = span(start.rescuer_interval_ms or 30_000)
        JobScheduler.interval = span(start.scheduler_interval_ms or 5_000)
        terms = None
        if start.elect_interval_ms is not None:
            terms = ElectionTimes(interval=span(start.elect_interval_ms), jitter=timedelta(0))
        client = Client(driver, self._config(start), terms=terms)
        subscription = client.subscribe(*EventKind)
        await client.start()
        self._claim_barrier = start.claim_barrier
        self._listening = asyncio.create_task(self._listen(subscription))
        self.running = client

    async def stop(self, *, cancel: bool) -> None:
        """Stop the working client; jobs that do not end are abandoned."""
        if self.running is None:
            raise Refused(Code.REJECTED, "no client is running")
        if self._claim_barrier in self._barriers:
            self.release_barrier(self._claim_barrier)
        client, self.running = self.running, None
        stop = client.stop_and_cancel if cancel else client.stop
        try:
            await asyncio.wait_for(stop(), _STOP_SECONDS)
        except TimeoutError:
            await client.stop_and_abandon()
        if self._listening is not None:
            await self._listening

    async def _listen(self, subscription: Any) -> None:
        async for event in subscription:
            self.stats.events.append(event.kind)
            if event.kind is EventKind.JOB_CANCELLED:
                self.stats.cancelled.append(event.job.id)

    def _config(self, start: Start) -> ClientConfig:
        stats = self.stats

        def handle_error(job: JobRow, error: BaseException) -> ErrorResult:
            stats.error_handler_calls += 1
            return ErrorResult(set_cancelled=True)

        def count_stuck(job: object) -> None:
            stats.stuck_jobs += 1

        given: dict[str, Any] = {}
        for state in ("cancelled", "completed", "discarded"):
            kept = getattr(start, f"{state}_job_retention_ms")
            if kept is not None:
                given[f"{state}_job_retention_period"] = NO_LIMIT if kept < 0 else span(kept)
        if start.job_timeout_disabled:
            given["job_timeout"] = NO_LIMIT
        for name, milliseconds in (
            ("job_timeout", start.job_timeout_ms),
            ("job_stuck_threshold", start.job_stuck_threshold_ms),
            ("rescue_stuck_jobs_after", start.rescue_after_ms),
        ):
            if milliseconds is not None:
                given[name] = span(milliseconds)
        if start.reindexer_interval_ms is not None:
            given["reindexer_schedule"] = PeriodicInterval(span(start.reindexer_interval_ms))
        if (delay := start.retry_delay_ms) is not None:
            given["retry_policy"] = lambda _: datetime.now(UTC) + span(delay)
        workers = Workers()
        workers.add(EchoWorker(self, stats))
        jobs = periodic_jobs(start.periodic_unique) if start.periodic_run_on_start else ()
        return ClientConfig(
            id=start.client_id,
            schema=start.schema or None,
            queues={start.queue: QueueConfig(max_workers=start.max_workers)},
            workers=workers,
            error_handler=handle_error if start.error_handler_cancel else None,
            fetch_cooldown=span(1),
            fetch_poll_interval=span(start.fetch_poll_interval_ms),
            leader_election_disabled=start.leader_election_disabled,
            periodic_jobs=jobs,
            plugins=[Tracer(stats)] if start.instrumented else (),
            poll_only=start.poll_only,
            reindexer_index_names=start.reindexer_index_names,
            stuck_handler=count_stuck,
            # River's defaults, where riverui's differ.
            discard_unknown_stuck_jobs=True,
            fetch_only_known_kinds=False,
            **given,
        )


def periodic_jobs(unique: bool) -> Sequence[PeriodicJob]:
    """Return the suite's periodic job, or a unique one and another behind it."""
    once = UniqueOpts(by_args=True, by_queue=True) if unique else None
    jobs = [_periodic_job("conformance-periodic", "periodic run on start", once)]
    if unique:
        jobs.append(_periodic_job("conformance-periodic-marker", "periodic marker", None))
    return jobs


def _periodic_job(id: str, message: str, unique: UniqueOpts | None) -> PeriodicJob:
    opts = InsertOpts(metadata={"periodic": True}, unique_opts=unique)
    return PeriodicJob(
        PeriodicInterval(timedelta(hours=1)),
        lambda: (Echo(message=message), opts),
        run_on_start=True,
        id=id,
    )


class _Around:
    """An object with some attributes replaced."""

    def __init__(self, inner: Any, **replaced: Any) -> None:
        self._inner = inner
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def holding_claim(driver: Driver, barrier: asyncio.Event) -> Any:
    """Return a driver whose first fetch that finds jobs returns them when the barrier is released;
    they are running by then.
    """
    held = False

    async def get_available(work: Any, params: Any) -> Sequence[JobRow]:
        nonlocal held
        rows: Sequence[JobRow] = await work.get_available(params)
        if rows and not held:
            held = True
            await barrier.wait()
        return rows

    @asynccontextmanager
    async def session(**limits: Any) -> AsyncIterator[Any]:
        inner: Any = driver
        async with inner.session(**limits) as executor:
            work = _Around(
                executor.work, get_available=lambda params: get_available(executor.work, params)
            )
            yield _Around(executor, work=work)

    return _Around(driver, session=session)
