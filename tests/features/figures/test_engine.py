"""A client counts all its attempts, with the same results as rows where rows show them."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from psycopg import AsyncConnection

from riverui.domain.figures import OTHER, Tally
from riverui.engine.limits import EngineLimits
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.context import job_complete_tx
from riverui.engine.work.worker import Job, JobCancel, JobSnooze
from riverui.features.figures.domain import MINUTE, Pair, RollupRow, add_pairs, begin, ranges
from riverui.features.figures.engine.attempt_tallies import AttemptTallies
from riverui.features.figures.store import JobFigures, RollupStore
from riverui.storage.connect import connect
from riverui.storage.interface.engine_params import JobFetchParams
from riverui.storage.migrations import migrate
from tests.engine.conftest import Playground, Task
from tests.engine.test_completer import NoSlots

SOON = EngineLimits(
    figures_seconds=0.05, look_for_figures_seconds=0.05, figures_refused_seconds=0.05
)
"""No pauses, so that a test need not wait."""


async def change_line(play: Playground, direction: Any, target: int | None = None) -> None:
    driver = connect(play.database_url)
    await migrate(driver, direction, line="riverui", target_version=target)
    await driver.close()


async def counted(play: Playground) -> dict[Pair, Tally]:
    """Return the counts of clients of the last minutes."""
    driver = connect(play.database_url)
    now, found = datetime.now(UTC), dict[Pair, Tally]()
    async with driver.reading() as db:
        minutes = await RollupStore(db).rollup_client_list(now - 10 * MINUTE, now + MINUTE)
    await driver.close()
    for pairs in minutes.values():
        add_pairs(found, pairs.items())
    return found


async def read(play: Playground) -> dict[Pair, Tally]:
    """Return the counts by rows of the jobs that ended in the last minutes."""
    driver = connect(play.database_url)
    now, found = datetime.now(UTC), dict[Pair, Tally]()
    span = list(ranges(now - 10 * MINUTE, now + MINUTE, sampled=False))
    async with driver.reading() as db:
        minutes = await JobFigures(db).job_ended_tally_list(span, pairs=200)
    await driver.close()
    for pairs in minutes.values():
        add_pairs(found, pairs.items())
    return found


async def ended(play: Playground, number: int) -> None:
    """Wait until so many jobs are finished."""

    async def all_ended() -> bool:
        rows = await play.rows("select count(*) as n from river_job where finalized_at is not null")
        return bool(rows[0]["n"] >= number)

    await play.until(all_ended)


class Odd(Exception):
    """A failure of a job."""


async def by_value(job: Job[Task]) -> None:
    """End as the job says."""
    if job.args.value == "fail" and job.attempt <= job.args.number:
        raise Odd
    if job.args.value == "snooze" and job.metadata_dict.get("snoozes", 0) < job.args.number:
        raise JobSnooze(timedelta(0))
    if job.args.value == "cancel":
        raise JobCancel


@pytest.mark.usefixtures("own_tables")
async def test_clients_count_what_rows_show(play: Playground) -> None:
    play.worker(by_value)
    client = await play.start(limits=SOON, retry_policy=lambda job: datetime.now(UTC))
    for number in range(40):
        await play.insert(Task(value="" if number % 2 else "cancel"), queue="default")
    await play.insert(Task(value="fail", number=9), max_attempts=2)
    await ended(play, 41)
    await client.stop()
    (pair, by_client), *others = (await counted(play)).items()
    by_rows = (await read(play))[pair]
    assert (pair, others) == (("default", "task"), [])
    assert (by_client.completed, by_client.cancelled, by_client.discarded) == (20, 20, 1)
    assert by_client.ended == by_rows.ended == 41
    for one, other in ((by_client.run, by_rows.run), (by_client.wait, by_rows.wait)):
        assert one.counts == other.counts
        assert (one.sum_us, one.max_us) == (other.sum_us, other.max_us)


@pytest.mark.usefixtures("own_tables")
async def test_what_rows_lose_is_counted(play: Playground) -> None:
    play.worker(by_value)
    client = await play.start(limits=SOON, retry_policy=lambda job: datetime.now(UTC))
    await play.insert(Task(value="snooze", number=3))
    await play.insert(Task(value="fail", number=4))
    await ended(play, 2)
    # Deleting them deletes all that rows can show.
    await play.connection.execute("delete from river_job")
    await client.stop()
    tally = (await counted(play))["default", "task"]
    assert (tally.completed, tally.snoozed, tally.failed, tally.interrupted) == (2, 3, 4, 0)
    assert (tally.run.n, tally.failed_run.n, tally.wait.n) == (2, 4, 2)


@pytest.mark.usefixtures("own_tables")
async def test_an_interrupted_attempt_is_counted_at_the_stop(play: Playground) -> None:
    begun = asyncio.Event()

    async def endless(job: Job[Task]) -> None:
        begun.set()
        await asyncio.Event().wait()

    play.worker(endless)
    client = await play.start(limits=SOON, soft_stop_timeout=timedelta(0))
    await play.insert()
    await begun.wait()
    await client.stop()
    assert (await counted(play))["default", "task"].interrupted == 1


@pytest.mark.usefixtures("own_tables")
async def test_jobs_that_complete_themselves_are_counted(play: Playground) -> None:
    async def complete(job: Job[Task]) -> None:
        async with await AsyncConnection.connect(play.database_url) as connection:
            await job_complete_tx(connection, job)
            if job.args.value == "undo":
                await connection.rollback()

    play.worker(complete)
    client = await play.start(limits=SOON)
    for value in ("", "undo", ""):
        await play.insert(Task(value=value))
    await ended(play, 3)
    await client.stop()
    assert (await counted(play))["default", "task"].completed == 3


@pytest.mark.usefixtures("own_tables")
async def test_what_is_written_often_counts_once(play: Playground) -> None:
    play.worker(by_value)
    await play.start(limits=SOON)
    for number in range(1, 6):
        await play.insert()
        await ended(play, number)

        async def is_counted(number: int = number) -> bool:
            tally = (await counted(play)).get(("default", "task"))
            return tally is not None and tally.completed >= number

        await play.until(is_counted)
    assert (await counted(play))["default", "task"].completed == 5
    # One row for each minute, complete each time.
    rows = await play.rows("select bucket, count(*) as n from riverui_rollup group by bucket")
    assert [row["n"] for row in rows] == [1] * len(rows)


@pytest.mark.usefixtures("own_tables")
async def test_two_clients_and_one_that_restarts_under_its_name(play: Playground) -> None:
    play.worker(by_value)
    for life in range(3):
        client = await play.start(limits=SOON, id="mail-1" if life else "mail-2")
        await play.insert()
        await ended(play, life + 1)
        await client.stop()
    assert (await counted(play))["default", "task"].completed == 3
    sources = await play.rows("select distinct source from riverui_rollup order by source")
    assert [row["source"].rpartition("@")[0] for row in sources] == ["mail-1", "mail-1", "mail-2"]


async def test_without_the_table_nothing_is_counted_until_somebody_makes_it(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    play.worker(by_value)
    await play.start(limits=SOON)
    await play.insert()
    await ended(play, 1)
    await change_line(play, "up")
    number = 1

    async def is_counted() -> bool:
        nonlocal number
        number += 1
        await play.insert()
        await ended(play, number)
        return bool(await counted(play))

    await play.until(is_counted)
    for version in (6, -1):
        await change_line(play, "down", version)
        await play.insert()
        number += 1
        await ended(play, number)
    await change_line(play, "up")
    await play.until(is_counted)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.usefixtures("own_tables")
async def test_a_client_may_count_nothing(play: Playground) -> None:
    play.worker(by_value)
    client = await play.start(limits=SOON, charts=False)
    await play.insert()
    await ended(play, 1)
    await client.stop()
    assert await counted(play) == {}


@pytest.mark.usefixtures("own_tables")
async def test_a_table_that_rejects_rows_is_reported_once_and_costs_no_job(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    await play.connection.execute(
        "alter table riverui_rollup add constraint riverui_odd check (completed < 0) not valid"
    )
    play.worker(by_value)
    client = await play.start(limits=SOON)
    for number in range(1, 4):
        await play.insert()
        await ended(play, number)
        await asyncio.sleep(0.1)

    def warnings() -> int:
        return sum("could not be stored" in record.message for record in caplog.records)

    await play.until(lambda: warnings() > 0)
    await play.connection.execute("alter table riverui_rollup drop constraint riverui_odd")

    async def is_counted() -> bool:
        return bool(await counted(play))

    # The counts made meanwhile are written then.
    await play.until(is_counted)
    await client.stop()
    assert (await counted(play))["default", "task"].completed == 3
    assert warnings() == 1


@pytest.mark.usefixtures("own_tables")
async def test_who_may_not_write_there_works_on_and_says_so_once(
    play: Playground, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"riverui_few_{token_hex(4)}"
    await play.connection.execute(
        f"create role {name} login; grant all on all tables in schema public to {name};"
        f" revoke all on riverui_rollup from {name}".encode()
    )
    try:
        url = urlsplit(play.database_url)
        few = connect(urlunsplit(url._replace(netloc=f"{name}@{url.netloc.rpartition('@')[2]}")))
        play.worker(by_value)
        client = await play.start(database=few, limits=SOON)

        def warned() -> int:
            return sum("could not be stored" in record.message for record in caplog.records)

        number = 0
        while number < 5 or not warned():
            number += 1
            await play.insert()
            await ended(play, number)
        await client.stop()
        assert warned() == 1
        assert await counted(play) == {}
        await few.close()
    finally:
        await play.connection.execute(f"drop owned by {name}; drop role {name}".encode())


@pytest.mark.usefixtures("own_tables")
async def test_minutes_that_have_been_over_for_long_are_ignored(play: Playground) -> None:
    driver = connect(play.database_url)
    now = begin(datetime.now(UTC), MINUTE)
    rows = [
        RollupRow(now - n * MINUTE, "default", "task", 1, Tally(completed=n + 1), None)
        for n in range(6)
    ]
    async with driver.autocommit() as db:
        for _ in range(2):
            await RollupStore(db).rollup_client_put("mail@1", rows)
        found = await RollupStore(db).rollup_client_list(now - 10 * MINUTE, now + MINUTE)
    await driver.close()
    assert {now, now - MINUTE} <= found.keys()
    assert not {now - 3 * MINUTE, now - 4 * MINUTE} & found.keys()
    assert found[now]["default", "task"].completed == 1


@pytest.mark.usefixtures("own_tables")
async def test_the_rest_of_too_many_kinds_is_added_up(play: Playground) -> None:
    for queue, kinds in (("default", 230), ("mail", 3)):
        for number in range(kinds):
            await play.insert(queue=queue, kind=f"kind_{number}")
    driver = connect(play.database_url)
    tallies = AttemptTallies(keep=MINUTE, clock=lambda: datetime.now(UTC))
    async with driver.autocommit() as db:
        for queue in ("default", "mail"):
            jobs = await db.work.get_available(JobFetchParams("me", queue, 1000))
            now = datetime.now(UTC)
            attempts = [Attempt(job, None, NoSlots()) for job in jobs]
            for _ in range(2):
                tallies.completed(attempts, [now] * len(jobs), [job.id for job in jobs])
        rows, written = tallies.unwritten()
        await RollupStore(db).rollup_client_put("mail@1", rows)
    await driver.close()
    assert len({row.kind for row in rows}) == 201
    assert {row.queue for row in rows if row.kind == OTHER} == {"default", "mail"}
    assert sum(row.tally.completed for row in rows) == 2 * (230 + 3)
    assert tallies.unwritten()[0] == rows
    written()
    assert tallies.unwritten()[0] == []


async def test_of_many_that_end_at_once_all_are_counted_and_some_are_timed(
    play: Playground,
) -> None:
    for kind, number in (("often", 100), ("seldom", 3)):
        for _ in range(number):
            await play.insert(kind=kind)
    driver = connect(play.database_url)
    async with driver.autocommit() as db:
        jobs = await db.work.get_available(JobFetchParams("me", "default", 1000))
    await driver.close()
    now = datetime.now(UTC)
    attempts = [Attempt(job, None, NoSlots()) for job in jobs]
    tallies = AttemptTallies(keep=MINUTE, clock=lambda: now)
    ids = [job.id for job in jobs if job.kind == "seldom" or job.id % 2]
    tallies.completed(attempts, [now] * len(jobs), ids)
    rows = {row.kind: row.tally for row in tallies.unwritten()[0]}
    assert {kind: tally.completed for kind, tally in rows.items()} == {"often": 50, "seldom": 3}
    for tally in rows.values():
        assert tally.run.n == tally.wait.n == tally.completed
