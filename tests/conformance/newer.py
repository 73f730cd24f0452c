"""Runs riverui behind the newer protocol of River's conformance suite, as of commit `6a427516`:
fourteen methods, JSON-RPC 2.0 on stdin and stdout, on Postgres or on a SQLite file.

River's harness of that commit asserts what is in the database itself, so that the adapter only
carries out operations.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

import msgspec

import riverui
from riverui import (
    Client,
    ClientConfig,
    ErrorResult,
    EventKind,
    JobListParams,
    JobState,
    QueueConfig,
    Workers,
    connect,
    migrate,
)
from riverui.engine.lead.elector import ElectionTimes
from riverui.engine.lead.maintenance.job_rescuer import JobRescuer
from riverui.engine.lead.maintenance.job_scheduler import JobScheduler
from riverui.errors import NotFound, QueueNotFound
from riverui.storage.interface import Driver
from tests.conformance.adapter import Request, serve
from tests.conformance.echo import ECHO, Echo, EchoWorker, Stats, Tracer
from tests.conformance.params import Count, Milliseconds, Name, NewJob, Nothing, Params
from tests.conformance.process import Code, Refused, begin, end, holding_claim, periodic_jobs
from tests.conformance.shapes import insert_result, job_of, new_job, span

_EVENTS = tuple(kind for kind in EventKind if kind is not EventKind.JOB_INTERRUPTED)
_EVENT_SECONDS = 0.05
"""Between a job's row and its event, at most."""
logger = logging.getLogger("tests.conformance")


class Peer(Echo, kw_only=True):
    """Args of a kind that others do not know."""

    kind: ClassVar[str] = "conformance_echo_peer"


class Renamed(Echo, kw_only=True):
    """Args of the kind that was once called the other."""

    kind: ClassVar[str] = "conformance_echo_renamed"
    kind_aliases: ClassVar[tuple[str, ...]] = (ECHO,)


KINDS = {args.kind: args for args in (Echo, Peer, Renamed)}


class Placed(Params):
    """Parameters of an operation that takes a schema and a transaction."""

    schema: str = ""
    tx: str = ""


class Insert(Placed, kw_only=True):
    jobs: tuple[NewJob, ...]


class OneJob(Placed, kw_only=True):
    id: Count


class Listing(Placed):
    after: str | None = None
    direction: Literal["asc", "desc"] = "asc"
    ids: tuple[Count, ...] | None = None
    kinds: tuple[str, ...] | None = None
    limit: Count = 100
    metadata: dict[str, Any] | None = None
    order_by: Literal["finalized_at", "id", "scheduled_at", "time"] = "id"
    priorities: tuple[int, ...] | None = None
    queues: tuple[str, ...] | None = None
    states: tuple[JobState, ...] | None = None
    tags_all: tuple[str, ...] | None = None


class Migrate(Params):
    direction: Literal["down", "up"] = "up"
    schema: str = ""
    target_version: int | None = None


class Queue(Placed, kw_only=True):
    action: Literal["pause", "resume", "update"]
    name: Name
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class Release(Params):
    name: Name


class Tuning(Params):
    elect_interval_ms: Milliseconds = 0
    rescuer_interval_ms: Milliseconds = 0
    scheduler_interval_ms: Milliseconds = 0


class Start(Params, kw_only=True):
    client_id: Name
    claim_barrier: str = ""
    error_handler_cancel: bool = False
    fetch_only_known_kinds: bool = False
    fetch_poll_interval_ms: Milliseconds = 0
    job_timeout_ms: Milliseconds = 0
    leader_election_disabled: bool = False
    max_workers: Count = 4
    periodic_run_on_start: bool = False
    periodic_unique: bool = False
    poll_only: bool = False
    queues: tuple[Name, ...] = ("default",)
    rescue_after_ms: Milliseconds = 0
    retry_delay_ms: Milliseconds = 0
    schema: str = ""
    tuning: Tuning = msgspec.field(default_factory=Tuning)
    worker_kinds: tuple[Literal[tuple(KINDS)], ...] = (ECHO,)  # type: ignore[valid-type]


class Stop(Params):
    cancel: bool = False


class TxBegin(Params):
    tx: Name


class TxEnd(Params, kw_only=True):
    tx: Name
    commit: bool = False


class Adapter:
    """One process of the suite, and what its requests have left behind."""

    def __init__(self, driver: str, url: str) -> None:
        self._barriers: dict[str, asyncio.Event] = {}
        self._clients: dict[str, Client] = {}
        self._driver = driver
        self._claim_barrier = ""
        self._listening: asyncio.Task[None] | None = None
        self._running: Client | None = None
        self._stats = Stats()
        self._transactions: dict[str, Any] = {}
        self._url = f"sqlite:///{url}" if driver == "sqlite" else url
        self._drivers: dict[str, Driver] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """End what is left of the requests."""
        yield
        if self._running is not None:
            await self.stop(Stop(cancel=True))
        for name in tuple(self._transactions):
            await self.tx_end(TxEnd(tx=name))
        for driver in self._drivers.values():
            await driver.close()

    def barrier(self, name: str) -> asyncio.Event:
        """Return a barrier, which exists as soon as it is used."""
        return self._barriers.setdefault(name, asyncio.Event())

    def connection(self) -> Any:
        """Lend no connection: no behavior of this protocol needs one."""
        raise NotImplementedError

    async def cancel(self, params: OneJob) -> Any:
        return job_of(await self._call("job_cancel", params)(params.id))

    async def handshake(self, _: Nothing) -> Any:
        version = riverui.__version__
        return {"driver": self._driver, "implementation": "python", "version": version}

    async def insert(self, params: Insert) -> Any:
        if not params.jobs:
            # River rejects an empty batch; riverui inserts nothing.
            raise Refused(Code.REJECTED, "there are no jobs to insert")
        results = await self._call("insert_many", params)([*map(new_job, params.jobs)])
        return {"results": [*map(insert_result, results)]}

    async def list(self, params: Listing) -> Any:
        given = {
            name: getattr(params, name)
            for name in ("after", "ids", "kinds", "metadata", "order_by", "priorities", "queues")
        }
        wanted = JobListParams(
            descending=params.direction == "desc",
            first=params.limit,
            states=params.states,
            tags_all=params.tags_all,
            **given,
        )
        page = await self._call("job_list", params)(wanted)
        cursor = None if page.last_cursor is None else str(page.last_cursor)
        return {"cursor": cursor, "jobs": [*map(job_of, page.jobs)]}

    async def migrate(self, params: Migrate) -> Any:
        driver: Any = self._driver_of(params.schema)
        steps = await migrate(driver, params.direction, target_version=params.target_version)
        return {"versions": [step.version for step in steps]}

    async def queue(self, params: Queue) -> None:
        given = {"metadata": params.metadata} if params.action == "update" else {}
        await self._call(f"queue_{params.action}", params)(params.name, **given)

    async def release(self, params: Release) -> None:
        self.barrier(params.name).set()

    async def request_resign(self, params: Placed) -> None:
        await self._call("request_resign", params)()

    async def retry(self, params: OneJob) -> Any:
        return job_of(await self._call("job_retry", params)(params.id))

    async def start(self, params: Start) -> None:
        if self._running is not None:
            raise Refused(Code.REJECTED, "a client is running already")
        if params.periodic_unique and not params.periodic_run_on_start:
            raise Refused(Code.INVALID_PARAMS, "periodic_unique needs periodic_run_on_start")
        driver: Any = self._driver_of(params.schema)
        if params.claim_barrier:
            driver = holding_claim(driver, self.barrier(params.claim_barrier))
        self._stats = stats = Stats()
        # The leader's intervals are River's, and no settings: a process of tests may shorten them.
        JobRescuer.interval = span(params.tuning.rescuer_interval_ms or 30_000)
        JobScheduler.interval = span(params.tuning.scheduler_interval_ms or 5_000)
        terms = None
        if elect := params.tuning.elect_interval_ms:
            terms = ElectionTimes(interval=span(elect), jitter=timedelta(0))
        client = Client(driver, self._config(params, stats), terms=terms)
        subscription = client.subscribe(*_EVENTS)
        await client.start()
        self._listening = asyncio.create_task(_listen(subscription, stats))
        self._claim_barrier, self._running = params.claim_barrier, client

    async def stats(self, _: Nothing) -> Any:
        if self._running is None:
            raise Refused(Code.REJECTED, "no client is running")
        # A job's event comes after its row, which the harness may have seen already.
        await asyncio.sleep(_EVENT_SECONDS)
        names = ("cancelled_at_start", "error_handler_calls", "events", "periodic_starts")
        found = self._stats.snapshot()
        return {name: found[name] for name in names}

    async def stop(self, params: Stop) -> None:
        client, self._running = self._running, None
        if client is None:
            raise Refused(Code.REJECTED, "no client is running")
        if self._claim_barrier:
            self.barrier(self._claim_barrier).set()
        await (client.stop_and_cancel() if params.cancel else client.stop())
        if self._listening is not None:
            await self._listening

    async def tx_begin(self, params: TxBegin) -> None:
        if params.tx in self._transactions:
            raise Refused(Code.REJECTED, f"the transaction {params.tx!r} is open already")
        self._transactions[params.tx] = await begin(self._url)

    async def tx_end(self, params: TxEnd) -> None:
        transaction = self._transaction(params.tx)
        del self._transactions[params.tx]
        await end(transaction, commit=params.commit)

    def _call(self, name: str, params: Placed) -> Callable[..., Awaitable[Any]]:
        """Return a method of a client that does not work, in the transaction if one is named."""
        if params.schema not in self._clients:
            self._clients[params.schema] = Client(self._driver_of(params.schema))
        client = self._clients[params.schema]
        if not params.tx:
            return getattr(client, name)  # type: ignore[no-any-return]
        transaction, method = self._transaction(params.tx), getattr(client, f"{name}_tx")
        return lambda *values, **named: method(transaction, *values, **named)

    def _driver_of(self, schema: str) -> Driver:
        if schema not in self._drivers:
            self._drivers[schema] = connect(self._url, schema=schema or None, max_size=6)
        return self._drivers[schema]

    def _transaction(self, name: str) -> Any:
        if name not in self._transactions:
            raise Refused(Code.NOT_FOUND, f"there is no transaction {name!r}")
        return self._transactions[name]

    def _config(self, params: Start, stats: Stats) -> ClientConfig:
        def cancel(job: object, error: object) -> ErrorResult:
            stats.error_handler_calls += 1
            return ErrorResult(set_cancelled=True)

        given: dict[str, Any] = {}
        for name, milliseconds in (
            ("fetch_poll_interval", params.fetch_poll_interval_ms),
            ("job_timeout", params.job_timeout_ms),
            ("rescue_stuck_jobs_after", params.rescue_after_ms),
        ):
            if milliseconds:
                given[name] = span(milliseconds)
        if delay := params.retry_delay_ms:
            given["retry_policy"] = lambda _: datetime.now(UTC) + span(delay)
        workers = Workers()
        for kind in params.worker_kinds:
            workers.add(EchoWorker(self, stats), args_type=KINDS[kind])
        jobs = periodic_jobs(params.periodic_unique) if params.periodic_run_on_start else ()
        return ClientConfig(
            id=params.client_id,
            queues={name: QueueConfig(max_workers=params.max_workers) for name in params.queues},
            workers=workers,
            error_handler=cancel if params.error_handler_cancel else None,
            fetch_cooldown=span(1),
            leader_election_disabled=params.leader_election_disabled,
            periodic_jobs=jobs,
            plugins=[Tracer(stats)],
            poll_only=params.poll_only,
            # River's defaults, where riverui's differ.
            discard_unknown_stuck_jobs=True,
            fetch_only_known_kinds=params.fetch_only_known_kinds,
            **given,
        )


METHODS: Mapping[str, type[Params]] = {
    "cancel": OneJob,
    "handshake": Nothing,
    "insert": Insert,
    "list": Listing,
    "migrate": Migrate,
    "queue": Queue,
    "release": Release,
    "request_resign": Placed,
    "retry": OneJob,
    "start": Start,
    "stats": Nothing,
    "stop": Stop,
    "tx_begin": TxBegin,
    "tx_end": TxEnd,
}


async def _listen(subscription: Any, stats: Stats) -> None:
    async for event in subscription:
        stats.events.append(event.kind)
        if event.kind is EventKind.JOB_CANCELLED:
            stats.cancelled.append(event.job.id)


def code_of(error: Exception) -> int:
    """Return the protocol's code for an error."""
    match error:
        case Refused():
            return error.code
        case msgspec.MsgspecError():
            return Code.INVALID_PARAMS
        case NotFound() | QueueNotFound():
            return Code.NOT_FOUND
        case _:
            logger.warning("a request failed", exc_info=error)
            return Code.REJECTED


async def main() -> None:
    """Answer requests until the end of input."""
    environment = {
        name: os.environ[f"RIVER_CONFORMANCE_{name.upper()}"] for name in ("driver", "database_url")
    }
    os.environ["PGAPPNAME"] = os.environ["RIVER_CONFORMANCE_APPLICATION_NAME"]
    adapter = Adapter(environment["driver"], environment["database_url"])

    async def answer(request: Request) -> Any:
        if request.jsonrpc != "2.0":
            raise Refused(Code.INVALID_REQUEST, "jsonrpc must be 2.0")
        if request.method not in METHODS:
            raise Refused(Code.METHOD_NOT_FOUND, f"there is no method {request.method!r}")
        params = msgspec.json.decode(request.params, type=METHODS[request.method])
        return await getattr(adapter, request.method)(params)

    async with adapter.opened():
        await serve(answer, code_of)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main())
