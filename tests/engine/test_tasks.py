"""Plain functions as jobs: what they make of their parameters, and how their jobs are inserted and
worked, on a real database.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import pickle
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import psycopg
import pydantic
import pytest

from riverui import (
    Client,
    ClientConfig,
    InsertManyParams,
    InsertOpts,
    Job,
    JobState,
    JsonArgs,
    PeriodicInterval,
    PeriodicJob,
    Retry,
    SyncClient,
    Task,
    TaskWithJob,
    Unique,
    UniqueOpts,
    Worker,
    Workers,
    client_from_context,
    current_job,
    testing,
)
from riverui.errors import ArgsError, ConfigError, OutsideJob
from riverui.storage.interface import Driver
from tests.engine.conftest import Playground

if TYPE_CHECKING:
    from fractions import Fraction

NOW = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
shop = Workers()
"""Registered once, as those of a program are."""
did: list[Any] = []
"""What the functions below were called with; empty at the beginning of each test."""


@pytest.fixture(autouse=True)
def nothing_done() -> Iterator[None]:
    did.clear()
    yield
    did.clear()


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Address:
    street: str
    number: int = 1


class Parcel(pydantic.BaseModel):
    weight: Decimal
    to: str = "nobody"


@shop.task
async def send_mail(to: str, subject: str = "Hello", *, copies: list[str] = []) -> None:  # noqa: B006
    """Send a mail."""
    did.append((to, subject, copies))


@shop.task(queue="slow", priority=2, max_attempts=3, tags=["ship"], kind="ship-parcel")
def ship(
    address: Address,
    parcel: Parcel,
    at: datetime,
    order: UUID,
    size: Size = Size.SMALL,
    days: dict[str, date] | None = None,
    within: timedelta = timedelta(hours=1),
) -> None:
    did.append((address, parcel, at, order, size, days, within, threading.current_thread().name))


@shop.task(pass_job=True, timeout=timedelta(seconds=30))
async def report(job: Job[Any], /, month: str) -> dict[str, Any]:
    assert job is current_job()
    return {"month": month, "attempt": job.attempt, "args": job.args.month}


@shop.task(pass_job=True)
def count(job: Job[Any], words: list[str]) -> int:
    assert job.kind == "count"
    return len(words)


@shop.task
async def odd(first: int, /, second: int = 2, *, third: int = 3) -> None:
    did.append((first, second, third))


@shop.task
async def unserializable() -> object:
    did.append("done")
    return object()


@shop.task
def untyped(anything, more=None):  # type: ignore[no-untyped-def]
    did.append((anything, more))


def tolerant(function: Callable[..., Awaitable[int]]) -> Callable[..., Awaitable[int]]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Awaitable[int]:
        return function(*args, **kwargs)

    return call


@shop.task
@tolerant
async def decorated(n: int) -> int:
    return n + 1


@shop.task(
    kind_aliases=["old_reconcile"], unique_opts=UniqueOpts(by_args=True), delay=timedelta(minutes=1)
)
async def reconcile(account_id: Annotated[int, Unique], reason: str = "") -> None: ...


@pytest.fixture
def play(play: Playground) -> Playground:
    play.workers = shop
    return play


@pytest.fixture
def client(driver: Driver) -> Client:
    return Client(driver, clock=lambda: NOW)


async def worked(play: Playground, inserted: Awaitable[Any]) -> dict[str, Any]:
    """Return the row of a job once it has been attempted."""
    result = await inserted
    await play.event(result.job.id)
    return await play.row(result.job.id)


async def test_the_row_has_the_parameters_by_their_names(client: Client) -> None:
    job = (await send_mail.insert(client, "ann@example.com", copies=["bob"])).job
    assert (job.kind, job.queue, job.state) == ("send_mail", "default", JobState.AVAILABLE)
    assert job.args == '{"to":"ann@example.com","subject":"Hello","copies":["bob"]}'


async def test_every_way_in(client: Client, database_url: str) -> None:
    jobs = [(await send_mail.insert(client, to="1")).job]
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        jobs.append((await send_mail.insert_tx(client, connection, to="2")).job)
    with SyncClient(database_url) as river:
        jobs.append(send_mail.insert(river, to="3").job)
        with psycopg.connect(database_url) as own:
            jobs.append(send_mail.insert_tx(river, own, "4").job)
            jobs.append(send_mail.with_opts(queue="x").insert_tx(river, own, "5").job)
        jobs += [
            result.job
            for result in river.insert_many(
                [send_mail.args(to="6"), send_mail.with_opts(queue="y").params(to="7")]
            )
        ]
    jobs.append((await client.insert(send_mail.args(to="8"), queue="z")).job)
    stored = [await client.job_get(job.id) for job in jobs]
    assert [json.loads(job.args)["to"] for job in stored] == [str(n) for n in range(1, 9)]
    assert [job.queue for job in stored] == [*["default"] * 4, "x", "default", "y", "z"]


async def test_options_of_the_call_win_over_those_of_the_task(client: Client) -> None:
    args = ship.args(Address("Road"), Parcel(weight=Decimal(1)), NOW, UUID(int=7))
    usual = (await client.insert(args)).job
    assert (usual.kind, usual.queue, usual.priority) == ("ship-parcel", "slow", 2)
    assert (usual.max_attempts, usual.tags) == (3, ("ship",))

    later = ship.with_opts(delay=timedelta(minutes=5), metadata={"by": "ann"})
    sooner = later.with_opts(queue="fast", delay=timedelta(minutes=1), priority=None)
    for inserts, queue, minutes in ((later, "slow", 5), (sooner, "fast", 1)):
        params = inserts.params(Address("Road"), Parcel(weight=Decimal(1)), NOW, order=UUID(int=7))
        assert isinstance(params, InsertManyParams)
        [result] = await client.insert_many([params])
        assert result.job.scheduled_at == NOW + timedelta(minutes=minutes)
        assert (result.job.queue, result.job.priority) == (queue, 2)
        assert result.job.metadata_dict == {"by": "ann"}


async def test_each_job_of_a_batch_has_the_options_of_its_task(client: Client) -> None:
    results = await client.insert_many(
        [
            *(reconcile.args(number) for number in (1, 2, 1)),
            InsertManyParams(reconcile.args(3), queue="other", delay=timedelta(0)),
            send_mail.args("ann"),
        ]
    )
    assert [result.unique_skipped_as_duplicate for result in results] == [False] * 2 + [
        True,
        False,
        False,
    ]
    assert [result.job.queue for result in results] == [*["default"] * 3, "other", "default"]
    waits = [result.job.scheduled_at - NOW for result in results]
    assert waits == [*[timedelta(minutes=1)] * 3, timedelta(0), timedelta(0)]


async def test_unique_fields_and_aliases(client: Client) -> None:
    first = await reconcile.insert(client, 1, "nightly")
    again = await reconcile.insert(client, account_id=1, reason="by hand")
    assert again.unique_skipped_as_duplicate
    assert again.job.id == first.job.id
    assert first.job.scheduled_at == NOW + timedelta(minutes=1)
    alias, own = shop.get("old_reconcile"), shop.get("reconcile")
    assert alias is not None
    assert own is not None
    assert alias.worker is own.worker


async def test_functions_are_called_with_what_was_given(play: Playground) -> None:
    client = await play.start()
    row = await worked(play, send_mail.insert(client, to="ann"))
    assert row["state"] == "completed"
    assert did.pop() == ("ann", "Hello", [])

    given = Address("Road", 7), Parcel(weight=Decimal("1.50")), NOW, UUID(int=7), Size.LARGE
    days = {"first": date(2026, 11, 22)}
    inserted = ship.with_opts(queue="default").insert(client, *given, days=days)
    assert (await worked(play, inserted))["state"] == "completed"
    *called, thread = did.pop()
    assert tuple(called) == (*given, days, timedelta(hours=1))
    assert thread.startswith("riverui-worker")

    await worked(play, odd.insert(client, 1, third=30))
    assert did.pop() == (1, 2, 30)
    await worked(play, untyped.insert(client, {"a": [1]}, more="x"))
    assert did.pop() == ({"a": [1]}, "x")


async def test_a_thread_cannot_insert_with_a_client_that_is_awaited(play: Playground) -> None:
    play.workers = Workers()
    client = play.make()
    with SyncClient(play.database_url) as sync:

        def insert(job: Job[Any]) -> None:
            with pytest.raises(
                TypeError, match=r"^send_mail\.insert\(client, …\): .* a SyncClient"
            ):
                _ = send_mail.insert(client, to="ann")
            with pytest.raises(
                TypeError, match=r"^send_mail\.insert_tx\(client, tx, …\): .* a Sync"
            ):
                _ = send_mail.insert_tx(client, None, to="ann")
            with pytest.raises(OutsideJob, match="insert with a SyncClient, made once"):
                client_from_context()
            # Beside a job they may be called for a loop that is begun afterwards.
            contextvars.Context().run(send_mail.insert, client, to="ann").close()
            did.append(send_mail.insert(sync, to="bob").job.state)

        await play.work(insert)
    assert did == [JobState.AVAILABLE]


async def test_missing_args_take_the_function_s_defaults(play: Playground) -> None:
    client = await play.start()
    await worked(play, client.insert(JsonArgs("send_mail", {"to": "go", "unknown": 1})))
    assert did == [("go", "Hello", [])]
    row = await worked(play, client.insert(JsonArgs("send_mail", {"subject": "x"})))
    [error] = row["errors"]
    assert (
        error["error"]
        == "ArgsError: the args do not fit send_mail: to: missing, and has no default"
    )


async def test_args_of_an_older_version_become_today_s(play: Playground) -> None:
    workers = play.workers = Workers()

    def in_parts(args: dict[str, Any]) -> dict[str, Any]:
        first, _, last = args.get("name", "").partition(" ")
        return {"first": first, "last": last, **args}

    @workers.task(upgrade=in_parts)
    async def greet(first: str, last: str = "") -> None:
        did.append((first, last))

    client = await play.start()
    await worked(play, client.insert(JsonArgs("greet", {"name": "Ann Lee"})))
    await worked(play, greet.insert(client, "Bob"))
    assert did == [("Ann", "Lee"), ("Bob", "")]
    with pytest.raises(ConfigError, match="upgrade must be a function"):
        workers.task(kind="other", upgrade=1)(greet.function)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"queue": "Not A Queue"}, "mend: 'Not A Queue' is not a valid queue name"),
        ({"priority": 9}, "mend: priority must be 1, 2, 3 or 4, not 9"),
        ({"max_attempts": 0}, "mend: max_attempts must be"),
        ({"tags": "abc"}, "mend: tags must be a list"),
        ({"delay": 300}, "mend: delay must be a timedelta"),
        ({"unique_opts": UniqueOpts(by_state=["available"])}, "mend: .*by_state"),
    ],
)
def test_settings_that_no_job_could_be_inserted_with(setting: dict[str, Any], words: str) -> None:
    workers = Workers()

    def mend() -> None: ...

    with pytest.raises(ConfigError, match=words):
        workers.task(**setting)(mend)
    assert workers.kinds == ()


async def test_a_task_may_get_its_job_and_returns_its_output(play: Playground) -> None:
    client = await play.start()
    row = await worked(play, report.insert(client, month="2026-11"))
    assert row["args"] == {"month": "2026-11"}
    assert row["metadata"]["output"] == {"month": "2026-11", "attempt": 1, "args": "2026-11"}
    row = await worked(play, count.insert(client, words=["a", "b"]))
    assert (row["state"], row["metadata"]["output"]) == ("completed", 2)
    row = await worked(play, decorated.insert(client, n=1))
    assert (row["state"], row["metadata"]["output"]) == ("completed", 2)


async def test_what_cannot_be_stored_is_no_output_and_no_error(play: Playground) -> None:
    client = await play.start()
    row = await worked(play, unserializable.insert(client))
    assert (row["state"], did) == ("completed", ["done"])
    assert "output" not in row["metadata"]
    [log] = row["metadata"]["river:log"]
    assert "what the task returned is not recorded as its output" in log["log"]


async def test_a_task_is_its_function_too() -> None:
    await send_mail("ann", subject="x")
    assert did == [("ann", "x", [])]
    assert send_mail.__doc__ == "Send a mail."
    assert send_mail.__name__ == "send_mail"
    assert send_mail.function.__name__ == "send_mail"
    assert repr(send_mail) == "<Task send_mail>"
    assert repr(send_mail.with_opts(queue="x")) == "<TaskInserter send_mail>"
    assert isinstance(send_mail, Task)
    assert isinstance(report, TaskWithJob)
    job: Job[Any] = Job(None, count.args(["a"]))  # type: ignore[arg-type]
    job.row = type("Row", (), {"kind": "count"})()
    assert count(job, ["a"]) == 1


def test_args_are_a_dataclass_that_can_be_pickled() -> None:
    args = send_mail.args("ann")
    assert repr(args) == "send_mail.args_type(to='ann', subject='Hello', copies=[])"
    assert pickle.loads(pickle.dumps(args)) == args
    assert args == send_mail.args_type(to="ann")  # type: ignore[call-arg]
    assert args.kind == "send_mail"
    with pytest.raises(TypeError, match=r"send_mail\.args\(\) missing 1 required .*: 'to'"):
        send_mail.args()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"send_mail\.args\(\) got an unexpected .* 'too'"):
        send_mail.args(too="ann")  # type: ignore[call-arg]


async def test_errors_of_an_insert_name_the_mistake(client: Client) -> None:
    wrong: Any = send_mail
    with pytest.raises(TypeError, match=r"send_mail\.insert\(client, …\): the first .* not 'ann'$"):
        wrong.insert("ann")
    with pytest.raises(TypeError, match=r"send_mail\.insert_tx\(client, tx, …\): the first"):
        wrong.insert_tx(SyncClient, None, "ann")
    with pytest.raises(TypeError, match=r"send_mail\.insert\(client, …\): the first .* not None$"):
        wrong.insert(to="ann")
    for name in ("apply_async", "delay"):
        with pytest.raises(AttributeError, match=rf"'{name}': .* send_mail\.insert\(client, …\)"):
            getattr(wrong, name)("ann")
    with pytest.raises(AttributeError, match=r"^'Task' object has no attribute 'other'$"):
        wrong.other("ann")
    for insert in (wrong.insert, wrong.with_opts(priority=2).insert):
        with pytest.raises(TypeError, match=r"'queue': options are given as send_mail\.with_opts"):
            insert(client, "ann", queue="slow")


async def test_args_that_no_worker_could_read_are_refused(client: Client) -> None:
    wrong: Any = 5
    for more in range(3):  # the first of a batch and those like it take different ways
        batch = [count.args(["a"])] * more + [count.args(["b", wrong])]
        with pytest.raises(ArgsError, match=r"the args do not fit count: words\.1: expected text"):
            await client.insert_many(batch)
    with pytest.raises(ArgsError, match=r"args do not fit ship: address\.street: expected"):
        await ship.insert(client, Address(wrong), Parcel(weight=Decimal(1)), NOW, UUID(int=7))
    assert not (await client.job_list()).jobs


async def test_the_task_itself_is_no_args(client: Client) -> None:
    with pytest.raises(ArgsError, match=r"<Task send_mail> is not job args: insert what its args"):
        await client.insert(send_mail)  # type: ignore[arg-type]


async def test_helpers_of_tests_know_tasks(client: Client) -> None:
    async with testing.rolled_back(client.driver) as river:
        await send_mail.insert(river, to="ann")
        job = await testing.require_inserted(river, send_mail.args("ann"), queue="default")
        assert job.kind == "send_mail"
        found = await testing.require_inserted(river, send_mail.args_type)
        assert found.args == send_mail.args("ann")
        result = await testing.work(river, shop, report.args("2026-11"))
        assert result.job.output["month"] == "2026-11"


async def test_tasks_are_worked_at_once_in_tests_that_want_it() -> None:
    river = testing.InlineClient(shop)
    assert (await report.insert(river, month="2026-11")).job.output == {
        "month": "2026-11",
        "attempt": 1,
        "args": "2026-11",
    }
    waiting = Client(testing.MemoryDatabase())
    await send_mail.insert(waiting, "ann")
    await testing.drain(waiting, shop)
    assert did == [("ann", "Hello", [])]


def test_tasks_are_worked_at_once_in_synchronous_tests_too() -> None:
    river = testing.InlineSyncClient(shop)
    assert count.insert(river, ["a", "b"]).job.output == 2
    assert river.wait(send_mail.insert(river, "ann").job.id).state == "completed"
    assert did == [("ann", "Hello", [])]


async def test_periodic_jobs_and_workflows_take_the_args(client: Client) -> None:
    every = PeriodicInterval(timedelta(hours=1))
    job = PeriodicJob(every, lambda: send_mail.args(to="ann"), id="hourly")
    made = job.construct()
    assert made == InsertManyParams(send_mail.args("ann"))
    delayed = PeriodicJob(every, lambda: send_mail.with_opts(queue="x").params(to="ann"))
    made = delayed.construct()
    assert made is not None
    assert made.insert_opts == InsertOpts(queue="x")
    workflow = client.workflows.new("checkout")
    first = workflow.add("first", send_mail.args(to="ann"))
    workflow.add("second", count.args(["a"]), deps=[first], queue="slow")
    assert [params.args for params in workflow.prepare()] == [
        send_mail.args("ann"),
        count.args(["a"]),
    ]


async def test_a_client_with_workers_knows_the_kinds(driver: Driver) -> None:
    client = Client(driver, ClientConfig(workers=shop))
    assert (await send_mail.insert(client, to="ann")).job.kind == "send_mail"


def test_time_limits_and_ephemeral_jobs_are_as_of_other_workers() -> None:
    workers = Workers()

    @workers.task(ephemeral=True, timeout=timedelta(seconds=7))
    async def ping() -> None: ...

    unit = workers.get("ping")
    assert unit is not None
    assert unit.ephemeral
    assert unit.worker.timeout == timedelta(seconds=7)
    assert unit.is_async
    with pytest.raises(ConfigError, match=r"pong\.timeout must not be negative"):

        @workers.task(timeout=timedelta(seconds=-7))
        async def pong() -> None: ...


async def test_a_task_s_retry_holds_for_who_inserts_and_who_works(
    client: Client, play: Playground
) -> None:
    workers = play.workers = Workers()
    never_again = Retry(max_attempts=3, never=(ZeroDivisionError,))

    @workers.task(retry=never_again)
    async def divide(by: int) -> float:
        return 1 / by

    assert (await divide.insert(client, by=1)).job.max_attempts == 3
    working = await play.start()
    row = await worked(play, divide.insert(working, by=0))
    assert (row["state"], row["attempt"]) == ("discarded", 1)
    with pytest.raises(ConfigError, match=r"again\.retry"):

        @workers.task(retry=3)  # type: ignore[call-overload, untyped-decorator]
        async def again() -> None: ...


def test_kinds_are_names_and_each_is_there_once() -> None:
    workers = Workers()

    @workers.task
    def tidy() -> None: ...

    with pytest.raises(ConfigError, match="Job kind 'tidy' already has a worker"):
        workers.task(tidy.function)
    with pytest.raises(ConfigError, match="tidy is a task already"):
        workers.task(tidy)
    with pytest.raises(ConfigError, match="'a b' cannot be a kind: give one"):
        workers.task(kind="a b")(tidy.function)
    with pytest.raises(ConfigError, match="kind_aliases must be a list"):
        workers.task(kind="other", kind_aliases="tidy")(tidy.function)
    with pytest.raises(ConfigError, match="a task has no setting 'que'"):
        workers.task(que="x")(tidy.function)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="'mail' cannot be a task: decorate a function"):
        workers.task("mail")  # type: ignore[call-overload]
    assert workers.kinds == ("tidy",)


class Mailer:
    def send(self, to: str) -> None: ...

    @staticmethod
    def post(to: str) -> None: ...


def starred(to: str, *others: str) -> None: ...
def open_ended(to: str, **more: str) -> None: ...
def of_kind(kind: str) -> None: ...
def unknown_type(half: Fraction) -> None: ...
def no_json(stream: asyncio.StreamReader) -> None: ...
def with_job(job: Job[Any], to: str) -> None: ...
def without_job(*, to: str) -> None: ...
def generator(to: str) -> Iterator[str]:
    yield to


async def asynchronous_generator(to: str) -> Any:
    yield to


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (Mailer.send, r"Mailer\.send is a method, and a job has no object to call it on"),
        (Mailer.post, r"Mailer\.post is a method"),
        (Mailer().send, r"Mailer\.send is a method"),
        (Mailer, r"cannot be a task: decorate a function"),
        (functools.partial(starred, "a"), r"cannot be a task: decorate a function"),
        (lambda: None, r"'<lambda>' cannot be a kind: give one"),
        (starred, r"starred cannot be a task with \*others: each parameter is one of"),
        (open_ended, r"open_ended cannot be a task with \*\*more: each"),
        (of_kind, r"of_kind: a parameter cannot be called 'kind'"),
        (unknown_type, r"unknown_type cannot be a task: .*'Fraction' is not defined"),
        (no_json, r"no_json, parameter stream: args cannot hold a StreamReader"),
        (with_job, r"with_job: the parameter job is a job\. .*pass_job=True"),
        (generator, r"generator is a generator"),
        (asynchronous_generator, r"asynchronous_generator is a generator"),
    ],
)
def test_what_cannot_be_a_task_is_refused(function: Any, words: str) -> None:
    workers = Workers()
    with pytest.raises(ConfigError, match=words):
        workers.task(function)
    assert workers.kinds == ()


@pytest.mark.parametrize("function", [without_job, starred, of_kind])
def test_a_task_with_its_job_has_a_parameter_for_it(function: Any) -> None:
    with pytest.raises(ConfigError, match="is to get its job: make it the first parameter"):
        Workers().task(pass_job=True)(function)


async def test_functions_and_classes_work_side_by_side(play: Playground) -> None:
    @dataclass
    class Classy:
        kind = "classy"

    class ClassyWorker(Worker[Classy]):
        async def work(self, job: Job[Classy]) -> None:
            did.append("classy")

    workers = play.workers = Workers()
    workers.add(ClassyWorker())

    @workers.task
    def plain() -> None:
        did.append("plain")

    client = await play.start()
    await worked(play, client.insert(Classy()))
    await worked(play, plain.insert(client))
    assert did == ["classy", "plain"]
