"""Clients that work jobs where they are inserted, and what drains a database."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest

import riverui
from riverui import (
    Client,
    ClientConfig,
    Hook,
    InsertManyParams,
    InsertOpts,
    Job,
    JobCancel,
    JobSnooze,
    JobState,
    Middleware,
    UniqueOpts,
    Worker,
    Workers,
)
from riverui.errors import ArgsError, ConfigError, UniqueConflict, UnknownJobKind
from riverui.storage.interface import WorkingDriver
from riverui.testing import (
    EventKind,
    InlineClient,
    MemoryDatabase,
    drain,
    require_inserted,
    rolled_back,
    work,
)

HOUR = timedelta(hours=1)
request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")


@dataclass
class Do:
    """The args of most jobs here."""

    kind: ClassVar[str] = "do"
    what: Any = "well"


@dataclass
class Later:
    """What a job inserts."""

    kind: ClassVar[str] = "later"
    number: int = 0


class Doer(Worker[Do]):
    """Does what the args say."""

    def __init__(self) -> None:
        self.done: list[object] = []

    async def work(self, job: Job[Do]) -> None:
        self.done.append(job.args.what)
        match job.args.what:
            case "fail":
                raise ValueError("no luck")
            case "snooze":
                raise JobSnooze(HOUR)
            case "cancel":
                raise JobCancel("not wanted")
            case "insert":
                inserted = await riverui.client_from_context().insert(Later(1))
                self.done.append(inserted.job.state.value)
            case "run":
                child = riverui.client_from_context().workflows.new(parent=job)
                child.add("page", Do("page"))
                await child.run()
            case "context":
                self.done.append(request_id.get())


class Laterer(Worker[Later]):
    """A synchronous worker."""

    def __init__(self, done: list[object]) -> None:
        self.done = done

    def work(self, job: Job[Later]) -> None:
        self.done.append(f"later {job.args.number}")


@pytest.fixture
def doer() -> Doer:
    """Return the worker."""
    return Doer()


@pytest.fixture
def workers(doer: Doer) -> Workers:
    """Return it and the other one."""
    both = Workers()
    both.add(doer)
    both.add(Laterer(doer.done))
    return both


@pytest.fixture(params=["memory", "postgres"])
def url(request: pytest.FixtureRequest) -> str | None:
    """Return the address of a Postgres; None for a database in memory."""
    return request.getfixturevalue("database_url") if request.param == "postgres" else None


Make = Callable[..., InlineClient]


@pytest.fixture
async def inline(url: str | None, workers: Workers) -> AsyncIterator[Make]:
    """Return what makes clients on one database."""
    driver: WorkingDriver = MemoryDatabase() if url is None else riverui.connect(url)  # type: ignore[assignment]

    def make(**given: Any) -> InlineClient:
        return InlineClient(workers, driver, **given)

    yield make
    await driver.close()


async def test_a_job_is_done_when_the_insert_returns(inline: Make, doer: Doer) -> None:
    river = inline()
    result = await river.insert(Do())
    assert doer.done == ["well"]
    assert (result.job.state, result.job.attempt) == (JobState.COMPLETED, 1)
    assert await river.job_get(result.job.id) == result.job


async def test_what_a_job_raises_is_raised_and_kept(inline: Make) -> None:
    river = inline()
    with pytest.raises(ValueError, match="no luck"):
        await river.insert(Do("fail"))
    (row,) = (await river.job_list()).jobs
    assert row.state in (JobState.RETRYABLE, JobState.AVAILABLE)
    assert [error.error for error in row.errors] == ["ValueError: no luck"]
    result = await inline(raises=False).insert(Do("fail"), InsertOpts(max_attempts=1))
    assert result.job.state is JobState.DISCARDED


async def test_snoozes_and_cancellations_are_no_errors(inline: Make) -> None:
    river = inline()
    snoozed, cancelled = await river.insert_many([Do("snooze"), Do("cancel")])
    assert (snoozed.job.state, snoozed.job.attempt) == (JobState.SCHEDULED, 0)
    assert cancelled.job.state is JobState.CANCELLED


async def test_a_job_that_inserts_jobs(inline: Make, doer: Doer) -> None:
    await inline().insert(Do("insert"))
    assert doer.done == ["insert", "later 1", "completed"]


async def test_jobs_are_worked_in_the_order_in_which_they_come(inline: Make, doer: Doer) -> None:
    river = inline()
    await river.insert_many([InsertManyParams(Do(2), InsertOpts(priority=4)), Do(1)])
    assert await river.insert_many_fast([Do(3), Do(4)]) == 2
    assert doer.done == [2, 1, 3, 4]


async def test_scheduled_jobs_do_not_wait_unless_asked_to(inline: Make) -> None:
    river, patient = inline(), inline(with_scheduled=False)
    later = InsertOpts(scheduled_at=river.clock() + HOUR)
    assert (await river.insert(Do(), later)).job.state is JobState.COMPLETED
    assert (await patient.insert(Do(), later)).job.state is JobState.SCHEDULED
    pending = InsertOpts(pending=True)
    assert (await river.insert(Do(), pending)).job.state is JobState.PENDING


async def test_unique_jobs_are_worked_once(inline: Make, doer: Doer) -> None:
    once = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    river = inline()
    first, second = await river.insert_many([InsertManyParams(Do(), once)] * 2)
    assert (first.unique_skipped_as_duplicate, second.unique_skipped_as_duplicate) == (False, True)
    assert doer.done == ["well"]
    with pytest.raises(UniqueConflict):
        await river.insert_many_fast([Do("lost"), InsertManyParams(Do(), once)])
    assert doer.done == ["well"]
    assert len((await river.job_list()).jobs) == 1


async def test_args_go_through_json(inline: Make, doer: Doer) -> None:
    river = inline()
    await river.insert(Do(("a", "b")))
    assert doer.done == [["a", "b"]]
    with pytest.raises(ArgsError):
        await river.insert(Do(object()))
    with pytest.raises(UnknownJobKind):
        await river.insert(Unknown())


@dataclass
class Unknown:
    """Args of a kind that nobody works."""

    kind: ClassVar[str] = "unknown"


async def test_hooks_and_middleware_run(inline: Make) -> None:
    seen: list[str] = []

    class Seer(Hook, Middleware):
        def insert_begin(self, request: Any) -> None:
            seen.append("insert")

        async def work(self, job: Any, do_inner: Callable[[Any], Awaitable[None]]) -> None:
            seen.append("before")
            await do_inner(job)
            seen.append("after")

        def work_end(self, job: Any, error: BaseException | None) -> BaseException | None:
            seen.append("end")
            return error

    config = ClientConfig(hooks=[Seer()], middleware=[Seer()])
    await inline(config=config).insert(Do())
    assert seen[0] == "insert"
    assert {"before", "after", "end"} <= set(seen)


async def test_the_job_has_the_context_of_its_caller(inline: Make, doer: Doer) -> None:
    token = request_id.set("r-1")
    await inline().insert(Do("context"))
    request_id.reset(token)
    assert doer.done == ["context", "r-1"]


async def insert_and_fail(river: Client, *jobs: object) -> None:
    """Insert jobs in a transaction, and leave that with an exception."""
    async with river.driver.transaction() as tx:
        await river.insert_many_tx(tx, jobs)  # type: ignore[arg-type]
        raise ZeroDivisionError


async def test_a_job_in_a_transaction_is_worked_within_it(inline: Make, doer: Doer) -> None:
    river = inline()
    with pytest.raises(ZeroDivisionError):
        await insert_and_fail(river, Do(), Do("insert"))
    assert doer.done == ["well", "insert", "later 1", "completed"]
    assert (await river.job_list()).jobs == []
    async with river.driver.transaction() as tx:
        result = await river.insert_tx(tx, Do())
        assert result.job.state is JobState.COMPLETED
        assert (await river.job_list()).jobs == []
    assert len((await river.job_list()).jobs) == 1


@pytest.mark.usefixtures("own_tables")
async def test_tasks_of_a_workflow(database_url: str, doer: Doer, workers: Workers) -> None:
    async with InlineClient(workers, database_url, raises=False) as river:
        workflow = river.workflows.new()
        mapped = workflow.map("part", [Do("insert"), Do("b")], then=Do("last"))
        assert mapped.then is not None
        workflow.add("mail", Later(2), deps=[mapped.then])
        workflow.add("never", Do(), deps=[workflow.add("bad", Do("cancel"))])
        ended = {
            result.job.metadata_dict["task"]: result.job.state.value
            for result in await workflow.insert()
        }
        done = dict.fromkeys(("part 1", "part 2", "after part", "mail"), "completed")
        assert ended == {**done, "bad": "cancelled", "never": "cancelled"}
        assert doer.done == ["insert", "later 1", "completed", "b", "cancel", "last", "later 2"]
        async with river.driver.transaction() as tx:
            again = river.workflows.new()
            again.add("second", Do("second"), deps=[again.add("first", Do("first"))])
            await again.insert_tx(tx)
        assert doer.done[-2:] == ["first", "second"]


async def test_one_worker_is_enough() -> None:
    doer = Doer()
    await InlineClient(doer).insert(Do())
    assert doer.done == ["well"]


async def states(river: Client) -> Sequence[str]:
    """Return the state of each job, by id."""
    return [row.state.value for row in (await river.job_list()).jobs]


async def test_a_drain_works_all_that_waits(inline: Make, doer: Doer, workers: Workers) -> None:
    river = Client(inline().driver)
    whats = ["well", "fail", "snooze", "cancel", "insert"]
    await river.insert_many([Do(what) for what in whats])
    await river.insert(Do("fail"), InsertOpts(max_attempts=1))
    await river.insert(Do("other"), InsertOpts(queue="other"))
    await river.insert(Do("later"), InsertOpts(scheduled_at=river.clock() + HOUR))
    with pytest.raises(ConfigError, match="no workers"):
        await drain(river)
    ended = await drain(river, workers, queue="default")
    assert (ended.completed, ended.failed, ended.discarded) == (3, 1, 1)
    assert (ended.cancelled, ended.snoozed) == (1, 1)
    assert doer.done == [*whats, "available", "fail", "later 1"]
    assert [job.kind for job in ended.jobs] == ["do"] * 6 + ["later"]
    assert (await drain(river, workers)).completed == 1
    assert (await drain(river, workers)).results == []
    # The later one, the snoozed one, and the one that failed.
    ended = await drain(river, workers, with_scheduled=river.clock() + HOUR / 2)
    assert (ended.failed, ended.completed, ended.snoozed) == (1, 0, 0)
    ended = await drain(river, workers, with_scheduled=True)
    assert (ended.failed, ended.completed, ended.snoozed) == (1, 1, 1)


@pytest.mark.usefixtures("own_tables")
async def test_a_drain_in_a_transaction(database_url: str, doer: Doer, workers: Workers) -> None:
    config = ClientConfig(workers=workers)
    async with (
        Client(database_url) as others,
        rolled_back(database_url, config) as river,
        rolled_back(database_url, config) as beside,
    ):
        await others.insert(Do("of others, before"))
        assert (await drain(river)).results == []
        await beside.insert(Do("beside"))
        workflow = river.workflows.new()
        first = workflow.add("first", Do("insert"))
        workflow.add("second", Do("second"), deps=[first])
        await workflow.insert()
        await others.insert(Do("of others, after"))
        assert [job.state.value for job in (await drain(river)).jobs] == ["completed"] * 3
        assert doer.done == ["insert", "available", "later 1", "second"]
        await river.insert(Do("run"))
        ended = await drain(river)
        assert (ended.completed, ended.snoozed) == (1, 1)
        assert (await drain(river)).completed == 1
        assert (await drain(beside)).completed == 1
        assert await states(others) == ["available"] * 2


async def test_a_drain_may_raise(inline: Make, workers: Workers) -> None:
    river = Client(inline().driver, ClientConfig(workers=workers))
    await river.insert_many([Do("fail"), Do()])
    with pytest.raises(ValueError, match="no luck"):
        await drain(river, raises=True)
    # The second one was not begun.
    assert (await river.job_list()).jobs[1].attempt == 0


async def test_a_drain_has_an_end() -> None:
    class Endless(Worker[Later]):
        async def work(self, job: Job[Later]) -> None:
            await riverui.client_from_context().insert(Later())

    river = Client(MemoryDatabase())
    await river.insert(Later())
    with pytest.raises(AssertionError, match="5 jobs were worked, and more are waiting"):
        await drain(river, Endless(), most_jobs=5)


async def test_a_job_that_removes_itself() -> None:
    class Remover(Worker[Later]):
        async def work(self, job: Job[Later]) -> None:
            async with database.transaction() as tx:
                row = await tx.jobs.row_get(job.id)
                assert row is not None
                await tx.work.complete_many([job.id], [row.created_at])
                await tx.jobs.delete_many([job.id])

    database = MemoryDatabase()
    river = InlineClient(Remover(), database)
    assert (await river.insert(Later())).job.state is JobState.AVAILABLE
    assert (await river.job_list()).jobs == []


async def test_working_a_job_of_a_client_in_memory() -> None:
    river = Client(MemoryDatabase())
    doer = Doer()
    result = await work(river, doer, Do("insert"))
    assert (result.event, doer.done) == (EventKind.JOB_COMPLETED, ["insert", "available"])
    assert (await require_inserted(river, Later)).args == Later(1)
    assert await states(river) == ["completed", "available"]


async def test_a_plain_function_is_worked_at_once() -> None:
    tasks, sent = Workers(), []

    @tasks.task(queue="mail")
    async def send(to: str) -> None:
        sent.append(to)

    river = InlineClient(tasks)
    assert (await send.insert(river, to="ann")).job.state is JobState.COMPLETED
    await send.insert(Client(river.driver), to="bob")
    assert sent == ["ann"]
    assert (await drain(river)).completed == 1
    assert sent == ["ann", "bob"]
