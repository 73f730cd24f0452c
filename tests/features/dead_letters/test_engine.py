"""Discarded jobs are kept as dead letters, and can be retried."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.domain.jobs import JobState
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.events import EventKind
from riverui.engine.lead.maintenance.job_cleaner import JobCleaner
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.pilot import Pilot
from riverui.engine.retention import Retention
from riverui.engine.work.worker import Job
from riverui.errors import ConfigError, NotFound, NotSupported, UniqueConflict
from riverui.features.dead_letters.domain import DeadReason
from riverui.features.dead_letters.engine.bundle import DeadLetterListParams
from riverui.features.dead_letters.engine.config import DeadLetterConfig
from riverui.features.dead_letters.engine.feature import DeadLetters
from riverui.features.retention.engine import QueueRetention
from riverui.storage.interface import Driver
from riverui.storage.interface.job_actions import SkipReason
from riverui.storage.migrations import migrate
from tests.engine.conftest import Playground, Task
from tests.engine.ticking import Ticking
from tests.factory import job

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
ON = DeadLetterConfig(enabled=True)


pytestmark = pytest.mark.usefixtures("own_tables")


@pytest.fixture
def client(driver: Driver) -> Client:
    return Client(driver)


async def cleaned(driver: Driver, config: DeadLetterConfig = ON, *features: Any) -> int:
    """Return how many jobs and dead letters all cleaners of a leader remove in one round."""
    pilot = Pilot((*features, DeadLetters(config)))
    context = ServiceContext(
        driver=driver,
        clock=Ticking().now,
        delete_before=pilot.delete_before,
        logger=logging.getLogger("riverui.engine"),
        retention=ClientConfig().retention,
    )
    services = [JobCleaner(context), *pilot.services(context)]
    return sum([await service.run_once() for service in services])  # type: ignore[misc]


async def columns(connection: AsyncConnection[Any], table: str) -> list[dict[str, Any]]:
    rows = await connection.execute(f"select * from {table} order by id".encode())
    return await rows.fetchall()


async def dead(connection: AsyncConnection[Any], driver: Driver, **given: Any) -> int:
    """Return the id of a new dead letter."""
    job_id = await job(connection, "discarded", **({"finalized_at": LONG_AGO} | given))
    await cleaned(driver)
    return job_id


async def test_a_discarded_job_is_moved_whole_and_others_are_removed(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    await job(
        connection,
        "discarded",
        finalized_at=LONG_AGO,
        args={"to": "ann", "big": "x" * 5_000},
        metadata={"trace": "a1", "river:log": [{"attempt": 1, "log": "…"}]},
        tags=["vip", "eu"],
        unique_key=b"\x01\x02",
        unique_states="10000001",
    )
    await job(connection, "completed", finalized_at=LONG_AGO)
    await job(connection, "cancelled", finalized_at=LONG_AGO)
    young = await job(connection, "discarded")
    before = (await columns(connection, "river_job"))[0]
    assert await cleaned(driver) == 3
    assert [row["id"] for row in await columns(connection, "river_job")] == [young]
    (row,) = await columns(connection, "riverui_dead_job")
    assert {name: row[name] for name in before} == before
    assert row["reason"] == "discarded"
    assert row["last_error"] == before["errors"][-1]["error"]
    assert abs(row["died_at"] - datetime.now(UTC)) < timedelta(minutes=1)


async def test_odd_errors_are_moved_as_they_are(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    for errors in ("array[]::jsonb[]", "array['7', '\"text\"']::jsonb[]", "'[5:6]={1,2}'::jsonb[]"):
        job_id = await job(connection, "discarded", finalized_at=LONG_AGO, errors=None)
        await connection.execute(f"update river_job set errors = {errors}".encode())
        assert await cleaned(driver) == 1
        row = await connection.execute(
            f"select errors = {errors} as same from riverui_dead_job where id = {job_id}".encode()
        )
        assert await row.fetchone() == {"same": True}, errors


async def test_queues_with_periods_of_their_own_keep_theirs_too(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    now = Ticking().now()
    old = await job(connection, "discarded", queue="mail", finalized_at=now - timedelta(minutes=2))
    await job(connection, "discarded", finalized_at=now - timedelta(minutes=2))
    minute = QueueRetention({"mail": Retention(discarded=timedelta(minutes=1))})
    assert await cleaned(driver, ON, minute) == 1
    assert [row["id"] for row in await columns(connection, "riverui_dead_job")] == [old]


async def test_a_job_with_the_id_of_a_dead_letter_stays_and_raises(
    driver: Driver, connection: AsyncConnection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    first = await dead(connection, driver)
    again = await job(connection, "discarded", id=first, kind="again", finalized_at=LONG_AGO)
    other = await job(connection, "discarded", id=first + 1, finalized_at=LONG_AGO)
    assert await cleaned(driver) == 1
    assert [row["id"] for row in await columns(connection, "river_job")] == [again]
    assert [row["id"] for row in await columns(connection, "riverui_dead_job")] == [first, other]
    assert f"job {again} cannot be processed" in caplog.text


async def test_dead_letters_are_kept_without_limit_by_default(
    driver: Driver, connection: AsyncConnection[Any]
) -> None:
    old, young = await dead(connection, driver), await dead(connection, driver)
    await connection.execute(
        "update riverui_dead_job set died_at = now() - interval '2 years' where id = %s", [old]
    )
    assert await cleaned(driver) == 0
    year = DeadLetterConfig(enabled=True, retention_period=timedelta(days=365))
    assert await cleaned(driver, year) == 1
    assert [row["id"] for row in await columns(connection, "riverui_dead_job")] == [young]


async def test_a_dead_letter_comes_back_as_a_new_beginning(
    driver: Driver, connection: AsyncConnection[Any], client: Client
) -> None:
    job_id = await dead(
        connection,
        driver,
        args={"to": "ann"},
        kind="mail",
        max_attempts=7,
        attempt=7,
        metadata={"trace": "a1", "cancel_attempted_at": "2026-01-01T00:00:00Z"},
        priority=3,
        queue="hooks",
        tags=["vip"],
    )
    found = await client.dead_letters.get(job_id)
    assert (found.id, found.reason, found.job.kind) == (job_id, DeadReason.DISCARDED, "mail")
    assert len(found.job.errors) == 25
    back = await client.dead_letters.retry(job_id)
    assert (back.id, back.state, back.attempt) == (job_id, JobState.AVAILABLE, 0)
    assert (back.kind, back.queue, back.priority, back.max_attempts) == ("mail", "hooks", 3, 7)
    assert (back.args_dict, back.metadata_dict, back.tags) == (
        {"to": "ann"}, {"trace": "a1"}, ("vip",),
    )  # fmt: skip
    assert (back.errors, back.attempted_by, back.attempted_at) == ((), (), None)
    assert back.finalized_at is None
    assert await columns(connection, "riverui_dead_job") == []
    with pytest.raises(NotFound, match=f"Dead letter not found: {job_id}"):
        await client.dead_letters.retry(job_id)


async def test_a_unique_key_that_is_taken_keeps_it_a_dead_letter(
    driver: Driver, connection: AsyncConnection[Any], client: Client
) -> None:
    unique = {"unique_key": b"\x05", "unique_states": "10000001"}
    blocked = await dead(connection, driver, **unique)
    free = await dead(connection, driver)
    await job(connection, "available", **unique)
    with pytest.raises(UniqueConflict, match=f"Dead letter {blocked} can't be retried"):
        await client.dead_letters.retry(blocked)
    changes = await client.dead_letters.retry_many([blocked, free, 999])
    assert changes.changed == (free,)
    assert set(changes.skipped) == {
        (blocked, SkipReason.UNIQUE_CONFLICT), (999, SkipReason.NOT_FOUND),
    }  # fmt: skip
    assert [row["id"] for row in await columns(connection, "riverui_dead_job")] == [blocked]
    # Several of one key that are retried together:
    await connection.execute("truncate river_job")
    same = [blocked, await dead(connection, driver, **unique)]
    changes = await client.dead_letters.retry_many(same)
    assert changes.changed == (blocked,)
    assert changes.skipped == ((same[1], SkipReason.UNIQUE_CONFLICT),)


async def test_in_a_transaction_of_the_callers(
    database_url: str, driver: Driver, connection: AsyncConnection[Any], client: Client
) -> None:
    ids = [await dead(connection, driver, kind=f"k{n}") for n in range(4)]
    unique = {"unique_key": b"\x05", "unique_states": "10000001"}
    blocked = await dead(connection, driver, **unique)
    await job(connection, "available", **unique)
    async with await AsyncConnection.connect(database_url) as tx:
        await client.dead_letters.retry_tx(tx, ids[0])
        await client.dead_letters.retry_many_tx(tx, [ids[1]])
        await client.dead_letters.delete_tx(tx, ids[2])
        await client.dead_letters.delete_many_tx(tx, [ids[3]])
        with pytest.raises(UniqueConflict):
            await client.dead_letters.retry_tx(tx, blocked)
        # What failed left nothing behind, and the transaction goes on.
        assert (await client.dead_letters.get_tx(tx, blocked)).id == blocked
        listed = await client.dead_letters.list_tx(tx)
        assert [each.id for each in listed.jobs] == [blocked]
        await tx.rollback()
    kept = [row["id"] for row in await columns(connection, "riverui_dead_job")]
    assert kept == [*ids, blocked]


async def test_deleting(driver: Driver, connection: AsyncConnection[Any], client: Client) -> None:
    ids = [await dead(connection, driver) for _ in range(3)]
    assert (await client.dead_letters.delete(ids[0])).id == ids[0]
    with pytest.raises(NotFound):
        await client.dead_letters.delete(ids[0])
    changes = await client.dead_letters.delete_many(ids)
    assert changes.changed == tuple(ids[1:])
    assert changes.skipped == ((ids[0], SkipReason.NOT_FOUND),)
    assert await columns(connection, "riverui_dead_job") == []


async def test_lists_page_by_page(
    driver: Driver, connection: AsyncConnection[Any], client: Client
) -> None:
    for number in range(7):
        kind, queue = ("mail", "report")[number % 2], ("a", "b")[number // 4]
        await job(connection, "discarded", kind=kind, queue=queue, finalized_at=LONG_AGO)
    await cleaned(driver)
    every = await client.dead_letters.list()
    assert len(every.jobs) == 7
    assert [each.id for each in every.jobs] == sorted(each.id for each in every.jobs)[::-1]
    seen: list[int] = []
    page = await client.dead_letters.list(DeadLetterListParams(first=3))
    while page.jobs:
        seen += [each.id for each in page.jobs]
        page = await client.dead_letters.list(DeadLetterListParams(first=3, after=page.last_cursor))
    assert seen == [each.id for each in every.jobs]
    some = await client.dead_letters.list(DeadLetterListParams(kind="mail", queue="b"))
    assert {(each.job.kind, each.job.queue) for each in some.jobs} == {("mail", "b")}
    assert (await client.dead_letters.list(DeadLetterListParams(kind="nu\0l"))).jobs == []
    with pytest.raises(ValueError, match="first must be from 1 to 10,000"):
        DeadLetterListParams(first=0)


async def test_without_the_table_errors_name_the_migration(driver: Driver, client: Client) -> None:
    await migrate(driver, "down", line="riverui", target_version=-1)
    message = "Dead letters need the tables of riverui: run `riverui migrate-up"
    for call in (client.dead_letters.list, lambda: client.dead_letters.get(1)):
        with pytest.raises(NotSupported, match=message):
            await call()
    for act in (client.dead_letters.retry_many, client.dead_letters.delete_many):
        with pytest.raises(NotSupported, match=message):
            await act([1])


async def test_a_client_that_asks_for_them_without_their_table_does_not_start(
    play: Playground, driver: Driver
) -> None:
    await migrate(driver, "down", line="riverui", target_version=-1)
    message = "dead_letter needs the tables of riverui: run `riverui migrate-up --line"
    with pytest.raises(ConfigError, match=message):
        await play.start(dead_letter=ON)
    await play.start()


async def test_a_leader_moves_them_and_a_retried_one_is_worked(play: Playground) -> None:
    worked: asyncio.Queue[int] = asyncio.Queue()

    async def work(job: Job[Task]) -> None:
        worked.put_nowait(job.row.id)

    play.worker(work)
    job_id = await play.insert(state="discarded", finalized_at=LONG_AGO)
    client = await play.start(dead_letter=ON, leader_election_disabled=False)

    async def moved() -> bool:
        return bool(await play.rows("select id from riverui_dead_job"))

    await play.until(moved)
    await client.dead_letters.retry(job_id)
    assert await asyncio.wait_for(worked.get(), 10) == job_id
    assert (await play.event(job_id)).kind is EventKind.JOB_COMPLETED


@pytest.mark.parametrize("period", [timedelta(-1), 5])
def test_invalid_periods(period: Any) -> None:
    with pytest.raises(ConfigError, match="DeadLetterConfig: retention_period must"):
        DeadLetterConfig(retention_period=period)


def test_off_unless_asked_for() -> None:
    assert ClientConfig().dead_letter is None
    assert not DeadLetterConfig().enabled
    with pytest.raises(ConfigError, match="dead_letter must be a DeadLetterConfig"):
        ClientConfig(dead_letter=True)  # type: ignore[arg-type]
