"""Help tests of programs that use River: check what was inserted, and work single jobs.

    async def test_signing_up(river):
        await sign_up(river, "ann@example.com")

        job = await require_inserted(river, SendWelcome, queue="mail", tags=["sign-up"])
        assert job.args.to == "ann@example.com"
        await require_not_inserted(river, SendInvoice)

    async def test_the_welcome_is_sent(river, outbox):
        result = await work(river, WelcomeWorker(outbox), SendWelcome(to="ann@example.com"))
        assert result.event == EventKind.JOB_COMPLETED

`river` is a fixture: a Client in a transaction that is rolled back when the test ends, so that
tests need no cleaning up and may run side by side. It comes with `pytest_plugins =
["riverui.testing"]` in a conftest.py, next to pytest-asyncio, and asks two fixtures that a project
overrides: `river_database` (a URL, a pool or a Driver; libpq's `PG*` variables unless overridden)
and `river_config` (a ClientConfig). `rolled_back` is the same without pytest.

Expected jobs are a type of args, of which only the kind counts, or args themselves, which must then
be equal. The options `max_attempts`, `priority`, `queue`, `scheduled_at`, `state` and `tags` must
all match. A synchronous test says `asyncio.run(require_inserted(url, SendWelcome))`, once its
transaction is committed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, Unpack, overload

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.args.job_args import JobArgs, JsonArgs, decoder, encode, kind_of
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.events import EventKind
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.work.progress import CURSOR, STEP
from riverui.engine.work.worker import Job, Worker, Workers
from riverui.storage.connect import connect
from riverui.storage.interface import EngineExecutor
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.testing.transaction_client import (
    LONGEST,
    TransactionDriver,
    WorkContext,
    WorkResult,
    work_context,
    work_in_transaction,
)

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

    from riverui.storage.interface import Driver

__all__ = [
    "EventKind",
    "Expected",
    "WorkContext",
    "WorkResult",
    "require_inserted",
    "require_inserted_tx",
    "require_many_inserted",
    "require_many_inserted_tx",
    "require_not_inserted",
    "require_not_inserted_tx",
    "resumable_step_after",
    "resumable_step_at_cursor",
    "rolled_back",
    "work",
    "work_context",
    "work_tx",
]

A = TypeVar("A")

Database: TypeAlias = "Client | Driver | AsyncConnectionPool[Any] | str | None"
"""What the helpers look into: a client's database, a Driver, a pool, a URL, or libpq's `PG*`
variables.
"""

_MOST_JOBS = 10_000
"""Jobs that a check reads: more than a test inserts."""


class Options(TypedDict, total=False):
    """Columns whose values are expected of a job besides its args."""

    max_attempts: int
    priority: int
    queue: str
    scheduled_at: datetime
    state: JobState | str
    tags: Sequence[str]


class Expected:
    """One of the jobs for require_many_inserted, with options of its own."""

    def __init__(self, args: Any, **options: Unpack[Options]) -> None:
        self.args = args
        self.options = options


@overload
async def require_inserted(
    database: Database, expected: type[A], **options: Unpack[Options]
) -> Job[A]: ...
@overload
async def require_inserted(
    database: Database, expected: A, **options: Unpack[Options]
) -> Job[A]: ...
async def require_inserted(
    database: Database, expected: Any, **options: Unpack[Options]
) -> Job[Any]:
    """Return the one job of that kind; AssertionError where there is none, or several, or it
    differs.
    """
    async with _looking(database) as executor:
        return await _inserted(executor, expected, options)


@overload
async def require_inserted_tx(
    tx: object, expected: type[A], *, schema: str | None = None, **options: Unpack[Options]
) -> Job[A]: ...
@overload
async def require_inserted_tx(
    tx: object, expected: A, *, schema: str | None = None, **options: Unpack[Options]
) -> Job[A]: ...
async def require_inserted_tx(
    tx: object, expected: Any, *, schema: str | None = None, **options: Unpack[Options]
) -> Job[Any]:
    """Return the one job of that kind among those an open transaction has inserted so far; see
    require_inserted.
    """
    return await _inserted(await _adopted(tx, schema), expected, options)


async def require_not_inserted(
    database: Database, expected: Any, **options: Unpack[Options]
) -> None:
    """Raise AssertionError where a job of that kind matches all options."""
    async with _looking(database) as executor:
        await _not_inserted(executor, expected, options)


async def require_not_inserted_tx(
    tx: object, expected: Any, *, schema: str | None = None, **options: Unpack[Options]
) -> None:
    """Raise AssertionError where an open transaction has inserted such a job so far; see
    require_not_inserted.
    """
    await _not_inserted(await _adopted(tx, schema), expected, options)


async def require_many_inserted(database: Database, expected: Sequence[Any]) -> Sequence[Job[Any]]:
    """Return the jobs of the kinds expected; AssertionError unless they are just these, in this
    order. Expected gives a job options.
    """
    async with _looking(database) as executor:
        return await _many_inserted(executor, expected)


async def require_many_inserted_tx(
    tx: object, expected: Sequence[Any], *, schema: str | None = None
) -> Sequence[Job[Any]]:
    """Return the jobs expected of those an open transaction has inserted so far; see
    require_many_inserted.
    """
    return await _many_inserted(await _adopted(tx, schema), expected)


async def work(
    database: Database,
    worker: Worker[Any] | Workers,
    args: JobArgs | JobRow,
    insert_opts: InsertOpts | None = None,
    *,
    config: ClientConfig | None = None,
) -> WorkResult:
    """Insert a job, work it as a client would, and return how it ended; `args` may be a job that is
    there.

    All of it happens in a transaction that is rolled back, or in that of the fixture `river`. Jobs
    that the worker inserts through `client_from_context()` can be looked at in the latter.
    """
    in_transaction = isinstance(database, Client) and isinstance(database.driver, TransactionDriver)
    async with _client(database) if in_transaction else rolled_back(database, config) as client:
        assert isinstance(client.driver, TransactionDriver)
        return await work_in_transaction(
            client.driver, config or client.config, _workers(worker), args, insert_opts
        )


async def work_tx(
    tx: object,
    worker: Worker[Any] | Workers,
    args: JobArgs | JobRow,
    insert_opts: InsertOpts | None = None,
    *,
    config: ClientConfig | None = None,
) -> WorkResult:
    """Work a job in a transaction of the caller's, who ends it; the job sees its rows. See work."""
    config = config or ClientConfig()
    driver = connect(schema=config.schema)
    within = TransactionDriver(driver, await driver.adopt(tx))
    return await work_in_transaction(within, config, _workers(worker), args, insert_opts)


@asynccontextmanager
async def rolled_back(
    database: Database = None, config: ClientConfig | None = None
) -> AsyncIterator[Client]:
    """Lend a client in a transaction that is rolled back: it inserts and administers, but cannot
    start.
    """
    async with _client(database, config) as client:
        try:
            async with client.driver.transaction(timeout=LONGEST) as tx:
                yield Client(
                    TransactionDriver(client.driver, tx),
                    replace(config or client.config, queues={}),
                )
                raise _RollBack
        except _RollBack:
            return


def resumable_step_after(opts: InsertOpts | None, step: str) -> InsertOpts:
    """Return options for `work` by which the job goes on after that step."""
    return _with_metadata(opts, {STEP: step})


def resumable_step_at_cursor(opts: InsertOpts | None, step: str, cursor: Any) -> InsertOpts:
    """Return options for `work` by which the job goes on inside that step with the cursor."""
    return _with_metadata(opts, {STEP: step, CURSOR: {step: cursor}})


def _with_metadata(opts: InsertOpts | None, metadata: dict[str, Any]) -> InsertOpts:
    opts = opts or InsertOpts()
    return replace(opts, metadata={**(opts.metadata or {}), **metadata})


class _RollBack(Exception):
    """Raised to roll a transaction back on purpose."""


def _workers(worker: Worker[Any] | Workers) -> Workers:
    if isinstance(worker, Workers):
        return worker
    workers = Workers()
    workers.add(worker)
    return workers


@asynccontextmanager
async def _looking(database: Database) -> AsyncIterator[EngineExecutor]:
    async with _client(database) as client, client.driver.autocommit() as executor:
        yield executor


def _client(
    database: Database, config: ClientConfig | None = None
) -> AbstractAsyncContextManager[Client]:
    return nullcontext(database) if isinstance(database, Client) else Client(database, config)


async def _adopted(tx: object, schema: str | None) -> EngineExecutor:
    if hasattr(tx, "job_row_list"):
        return tx  # type: ignore[return-value]  # an executor already
    return await connect(schema=schema).adopt(tx)


async def _inserted(executor: EngineExecutor, expected: Any, options: Options) -> Job[Any]:
    kind = kind_of(expected)
    rows = await _rows(executor, [kind])
    if not rows:
        _fail(f"no job of kind {kind!r} was inserted")
    if len(rows) > 1:
        _fail(
            f"{len(rows)} jobs of kind {kind!r} were inserted: require_many_inserted is for several"
        )
    return _matching(rows[0], expected, options)


async def _not_inserted(executor: EngineExecutor, expected: Any, options: Options) -> None:
    kind = kind_of(expected)
    rows = await _rows(executor, [kind])
    if found := [row.id for row in rows if not _differences(row, expected, options)]:
        like = "".join(f", {name} {value!r}" for name, value in options.items())
        _fail(
            f"{len(found)} of kind {kind!r}{like} inserted, where none was expected: job {found[0]}"
        )


async def _many_inserted(executor: EngineExecutor, expected: Sequence[Any]) -> Sequence[Job[Any]]:
    wanted = [one if isinstance(one, Expected) else Expected(one) for one in expected]
    kinds = [kind_of(one.args) for one in wanted]
    rows = await _rows(executor, kinds)
    found = [row.kind for row in rows]
    if found != kinds:
        _fail(f"jobs were inserted of kinds {found}, where {kinds} was expected")
    return [
        _matching(row, one.args, one.options, f" (number {place} of those expected)")
        for place, (row, one) in enumerate(zip(rows, wanted, strict=True), 1)
    ]


async def _rows(executor: EngineExecutor, kinds: Sequence[str]) -> Sequence[JobRow]:
    if not kinds:
        return []
    return await executor.job_row_list(
        JobSelectParams(kinds=tuple(dict.fromkeys(kinds)), limit=_MOST_JOBS)
    )


def _matching(row: JobRow, expected: Any, options: Options, place: str = "") -> Job[Any]:
    if differences := _differences(row, expected, options):
        _fail(f"job {row.id} of kind {row.kind!r}{place} has {', '.join(differences)}")
    if isinstance(expected, JsonArgs):
        return Job(row, JsonArgs(row.kind, json.loads(row.args)))
    return Job(row, decoder(expected if isinstance(expected, type) else type(expected))(row.args))


def _differences(row: JobRow, expected: Any, options: Options) -> list[str]:
    said = []
    if not isinstance(expected, type) and json.loads(row.args) != json.loads(
        wanted := encode(expected)
    ):
        said.append(f"args {row.args}, not {wanted}")
    found = row._asdict() | {"tags": list(row.tags)}
    for name, value in options.items():
        if name not in Options.__annotations__:
            raise TypeError(f"there is no option {name!r}")
        if isinstance(value, tuple):
            value = list(value)
        if found[name] != value:
            said.append(f"{name} {_shown(found[name])}, not {_shown(value)}")
    return said


def _shown(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(value.value if isinstance(value, JobState) else value)


def _fail(words: str) -> None:
    raise AssertionError(f"River: {words}.")


try:
    import pytest
    import pytest_asyncio
except ImportError:  # the fixtures are for those who have both
    pass
else:

    @pytest.fixture
    def river_database() -> Database:
        """Return the database that `river` uses: override it."""
        return None

    @pytest.fixture
    def river_config() -> ClientConfig:
        """Return how the client of `river` is configured: override it."""
        return ClientConfig()

    @pytest_asyncio.fixture
    async def river(river_database: Database, river_config: ClientConfig) -> AsyncIterator[Client]:
        """Lend a Client in a transaction that is rolled back after the test."""
        async with rolled_back(river_database, river_config) as client:
            yield client
