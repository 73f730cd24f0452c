"""The client without asyncio answers as the asyncio client does, on whatever it reaches the
database by: the same calls, in the same order, on the same rows.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, ClassVar

import pytest
from psycopg import AsyncConnection
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine

from riverui import (
    Client,
    DeadLetterBundle,
    DeadLetterListParams,
    InsertManyParams,
    InsertOpts,
    JobDeleteManyParams,
    JobListParams,
    SyncClient,
    SyncDeadLetterBundle,
    SyncWorkflowBundle,
    UniqueOpts,
    WorkflowBundle,
)
from riverui.errors import RiveruiError
from riverui.storage.interface import at_once
from riverui.storage.migrations import migrate
from tests.drivers import connect
from tests.factory import job, queue
from tests.guests import GUESTS

Call = Callable[..., Awaitable[Any]]
"""Calls a method of a client by its name, such as `job_get` or `workflows.cancel`."""

T0 = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
DAY = timedelta(days=1)
ERRORS = (RiveruiError, ValueError)
NASTY = 'ü"\\{},% %s $1 \u2028'
UNIQUE = {"unique_key": b"\x00\xffk" + b"k" * 29, "unique_states": "11110101"}


@dataclass
class Sort:
    kind: ClassVar[str] = "sort"
    strings: list[str]


async def seed(connection: AsyncConnection[Any]) -> None:
    """Make the rows that the story is about; the first job has the id 1."""
    await connection.execute("truncate river_job, river_queue, riverui_dead_job restart identity")
    for state in ("available", "scheduled", "retryable", "pending", "running"):
        await job(connection, state, args={"t": NASTY}, tags=[NASTY, "t"], created_at=T0)
    for state in ("completed", "cancelled", "discarded"):
        await job(connection, state, metadata={"m": NASTY}, created_at=T0, finalized_at=T0)
    await job(connection, "discarded", **UNIQUE, queue=NASTY[:3])
    await job(connection, "available", **UNIQUE)
    await job(connection, "scheduled", scheduled_at=datetime(9999, 1, 1, tzinfo=UTC))
    for name in ("default", "other"):
        await queue(connection, name, metadata={"q": NASTY})
    await connection.execute(
        "update river_job set scheduled_at = 'infinity' where id = 11;"
        " insert into riverui_dead_job (id, kind, queue, state, attempt, max_attempts, created_at,"
        " scheduled_at, finalized_at, priority, args, metadata, tags, died_at)"
        " select 1000 + id, kind, queue, state, attempt, max_attempts, created_at, scheduled_at,"
        " finalized_at, priority, args, metadata, tags, finalized_at"
        " from river_job where id in (7, 8)"
    )


def asking(call: Call) -> tuple[list[Any], Call]:
    """Return a list of answers, and the call that adds to it what is answered or raised."""
    answers: list[Any] = []

    async def ask(name: str, *args: Any, **given: Any) -> Any:
        try:
            answer = await call(name, *args, **given)
        except ERRORS as error:
            answer = (type(error), str(error))
        answers.append((name, comparable(answer)))
        return answer

    return answers, ask


async def story(call: Call) -> list[Any]:
    """Do everything there is to be done to jobs and queues; return all answers."""
    answers, ask = asking(call)
    for job_id in (1, 5, 9, 10, 11, 404):
        await ask("job_get", job_id)
    listed = await ask("job_list", JobListParams(first=3))
    await ask("job_list", JobListParams(first=3, after=listed.last_cursor))
    await ask("job_list", JobListParams(states=["running", "completed"], kinds=["test_kind"]))
    for verb in ("cancel", "retry", "delete"):
        for job_id in (1, 2, 5, 6, 8, 9, 404):
            await ask(f"job_{verb}", job_id)
    for job_id in (3, 5, 6, 404):
        await ask("job_move", job_id, queue="other", priority=4)
    await ask("job_move", 3, priority=9)
    await ask("job_update", 3, output={"t": NASTY})
    await ask("job_update", 3)
    await ask("job_update", 404, output=1)
    await ask("job_delete_many", JobDeleteManyParams(ids=[3, 5, 7]))
    await ask("insert", Sort([NASTY]), InsertOpts(tags=["a"], unique_opts=UniqueOpts(by_args=True)))
    await ask("insert", Sort([NASTY]), InsertOpts(unique_opts=UniqueOpts(by_args=True)))
    await ask("insert_many", [Sort(["a"]), InsertManyParams(Sort(["b"]), InsertOpts(priority=2))])
    await ask("insert_many_fast", [Sort(["c"]), Sort(["d"])])
    for name in ("default", "other", "nowhere", "*"):
        await ask("queue_get", name)
        await ask("queue_pause", name)
        await ask("queue_pause", name)
        await ask("queue_resume", name)
        await ask("queue_update", name, metadata={"q": [NASTY, 1, None]})
    await ask("queue_list", first=1)
    await ask("queue_list")
    await ask("queue_list", first=0)
    dead = await ask("dead_letters.list", DeadLetterListParams(first=1))
    await ask("dead_letters.list", DeadLetterListParams(after=dead.last_cursor))
    await ask("dead_letters.get", 1007)
    await ask("dead_letters.retry", 1007)
    await ask("dead_letters.retry_many", [1007, 1008, 404])
    await ask("dead_letters.delete", 1008)
    await ask("dead_letters.delete_many", [1008, 404])
    await ask("request_resign")
    return answers


def comparable(value: Any) -> Any:
    """Return an answer in a form to compare: with its types, and any recent time as `now`."""
    if isinstance(value, datetime):
        now = value < datetime(9000, 1, 1, tzinfo=UTC) and abs(datetime.now(UTC) - value) < DAY
        return "now" if now else value.isoformat(), value.tzname()
    if isinstance(value, str):
        stripped = re.sub(r'("[a-z_]+_at": ?)"2[^"]*"', r'\1"now"', value)
        return type(value).__name__, stripped
    if hasattr(value, "_asdict"):
        return type(value).__name__, comparable(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return type(value).__name__, comparable(fields)
    if isinstance(value, Mapping):
        return {
            key: "now" if key == "cancel_attempted_at" else comparable(each)
            for key, each in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [comparable(each) for each in value]
    return type(value).__name__, value


async def stored(connection: AsyncConnection[Any]) -> list[Any]:
    """Return what is in the tables afterwards."""
    # What psycopg cannot read.
    await connection.execute("delete from river_job where scheduled_at = 'infinity'")
    found: list[Any] = []
    for table in ("river_job", "river_queue", "riverui_dead_job"):
        cursor = await connection.execute(f"select * from {table} order by 1".encode())
        found += comparable(await cursor.fetchall())
    return found


@asynccontextmanager
async def asyncio_client(url: str) -> AsyncIterator[Call]:
    """Yield calls of the asyncio client."""
    client = Client(url)
    yield lambda name, *args, **given: attrgetter(name)(client)(*args, **given)
    await client.stop()


@asynccontextmanager
async def asyncio_client_tx(url: str) -> AsyncIterator[Call]:
    """Yield the same calls, each in a transaction of the caller's."""
    client = Client("postgresql://nobody@127.0.0.1:9/nowhere")

    async def call(name: str, *args: Any, **given: Any) -> Any:
        async with await AsyncConnection.connect(url) as tx:
            return await attrgetter(f"{name}_tx")(client)(tx, *args, **given)

    yield call
    await client.stop()


def _pool(url: str) -> Iterator[Any]:
    with ConnectionPool(url, min_size=1, max_size=1, open=True) as pool:
        yield pool


def _engine(dialect: str) -> Callable[[str], Iterator[Any]]:
    def made(url: str) -> Iterator[Any]:
        engine = create_engine(url.replace("postgresql://", f"postgresql+{dialect}://", 1))
        yield engine
        engine.dispose()

    return made


DATABASES: dict[str, Callable[[str], Iterator[Any]]] = {
    "url": lambda url: iter([url]),
    "pool": _pool,
    "engine psycopg": _engine("psycopg"),
    "engine psycopg2": _engine("psycopg2"),
}
"""What a SyncClient may be given."""


async def compare(
    url: str,
    connection: AsyncConnection[Any],
    expected: Any,
    by: Callable[[str], Iterator[Call]],
    *,
    story: Callable[[Call], Coroutine[Any, Any, list[Any]]] = story,
    seed: Callable[[AsyncConnection[Any]], Awaitable[object]] = seed,
    stored: Callable[[AsyncConnection[Any]], Awaitable[list[Any]]] = stored,
) -> None:
    """Run a story with the asyncio client and another one; answers and rows must be equal."""
    await seed(connection)
    async with expected(url) as call:
        answers = await story(call)
    rows = await stored(connection)
    await seed(connection)

    def run() -> list[Any]:
        with contextmanager(by)(url) as call:
            # Nothing of it waits.
            return at_once(story(call))

    # In a thread without a loop, as Django wants it.
    for ours, theirs in zip(await asyncio.to_thread(run), answers, strict=True):
        assert ours == theirs
    for here, there in zip(await stored(connection), rows, strict=True):
        assert here == there


def by_client(kind: str) -> Callable[[str], Iterator[Call]]:
    """Return calls of a SyncClient that was given a database of this kind."""

    def by(url: str) -> Iterator[Call]:
        with contextmanager(DATABASES[kind])(url) as database, SyncClient(database) as client:

            async def call(name: str, *args: Any, **given: Any) -> Any:
                return attrgetter(name)(client)(*args, **given)

            yield call

    return by


def by_guest(kind: str) -> Callable[[str], Iterator[Call]]:
    """Return calls of a SyncClient, each in a transaction of the caller's."""

    def by(url: str) -> Iterator[Call]:
        begin = GUESTS[kind](url)
        with SyncClient("postgresql://nobody@127.0.0.1:9/nowhere") as client:

            async def call(name: str, *args: Any, **given: Any) -> Any:
                with begin(True) as tx:
                    try:
                        return attrgetter(f"{name}_tx")(client)(tx, *args, **given)
                    except ERRORS as error:
                        # What failed has changed nothing, and the transaction continues.
                        failed = error
                raise failed

            yield call

    return by


@pytest.fixture
async def prepared(connection: AsyncConnection[Any], database_url: str) -> AsyncConnection[Any]:
    """Return a connection to a database with all tables."""
    driver = connect(database_url)
    await migrate(driver, "up", line="riverui")
    await driver.close()
    return connection


@pytest.mark.parametrize("kind", DATABASES)
async def test_by_itself(kind: str, prepared: AsyncConnection[Any], database_url: str) -> None:
    await compare(database_url, prepared, asyncio_client, by_client(kind))


_SHORT = ("psycopg", "psycopg2", "sqlalchemy session psycopg")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in _SHORT else pytest.mark.long) for kind in GUESTS],
)
async def test_in_a_transaction_of_the_callers(
    kind: str, prepared: AsyncConnection[Any], database_url: str
) -> None:
    await compare(database_url, prepared, asyncio_client_tx, by_guest(kind))


ABOUT_RUNNING = {
    "context", "enforce_unique", "insert_requests", "notify_inserts", "prepare_insert", "run",
    "start", "stop", "stop_and_abandon", "stop_and_cancel", "stopped", "subscribe",
}  # fmt: skip
"""Methods that only who works jobs needs, or the engine itself."""


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (Client, SyncClient),
        (DeadLetterBundle, SyncDeadLetterBundle),
        (WorkflowBundle, SyncWorkflowBundle),
    ],
)
def test_every_method_of_the_asyncio_client_is_there(theirs: type, ours: type) -> None:
    """A method that the asyncio client gets has to come here, too."""
    names = {name for name in dir(theirs) if not name.startswith("_")}
    public = {name for name in names if callable(getattr(theirs, name))}
    for name in sorted(public - ABOUT_RUNNING):
        their, our = getattr(theirs, name), getattr(ours, name)
        assert inspect.signature(our).parameters == inspect.signature(their).parameters, name
        assert our.__doc__, name
        assert not inspect.iscoroutinefunction(our), name
    assert public >= ABOUT_RUNNING or theirs is not Client
