"""Inserting jobs: every column, unique keys, notifications, COPY."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, DatabaseError, UniqueConflict
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import InsertResult, JobInsertParams
from tests.cases import cases
from tests.factory import Make
from tests.storage.conftest import NOW, Way, every_way, hearing, insert_params

KEY = b"\x00\xff\x80unique"
USUAL = 245
"""River's default states."""

NASTY = (
    'quo"te',
    "back\\slash",
    "com,ma",
    "{brace}",
    "NULL",
    "null",
    "",
    " ",
    "line\nbreak",
    "tab\tcr\r",
    "'",
    "$1 %s %(x)s :name /* schema */",
    "ünï·çødé 🦆",
    "\\N",
    "\\.",
    '"',
    "\\",
)


async def _insert(
    way: Way, jobs: list[JobInsertParams], *, fast: bool, **options: Any
) -> list[InsertResult]:
    """Either way of inserting; the rows of one or nothing."""
    if fast:
        assert await way.executor.jobs.insert_many_fast(jobs, **options) == len(jobs)
        return []
    inserted = await way.executor.jobs.insert_many(jobs, **options)
    assert len(inserted) == len(jobs)
    return list(inserted)


@every_way
@pytest.mark.parametrize("fast", [False, True])
async def test_every_column(way: Way, fast: bool) -> None:
    later = NOW + timedelta(hours=1)
    job = JobInsertParams(
        kind="all",
        args='{"a":[1,2.50,"x"]}',
        created_at=NOW,
        scheduled_at=later.astimezone(timezone(timedelta(hours=-7))),
        state=JobState.SCHEDULED,
        max_attempts=7,
        metadata='{"m":true}',
        priority=4,
        queue="other",
        tags=("one", "two"),
        unique_key=KEY,
        unique_states=USUAL,
    )
    inserted = await _insert(way, [job, insert_params()], fast=fast)
    first, second = await way.make.rows("select * from river_job order by id")
    assert first == {
        **first,
        "args": {"a": [1, 2.5, "x"]},
        "attempt": 0,
        "attempted_at": None,
        "attempted_by": None,
        "created_at": NOW,
        "errors": None,
        "finalized_at": None,
        "kind": "all",
        "max_attempts": 7,
        "metadata": {"m": True},
        "priority": 4,
        "queue": "other",
        "scheduled_at": later,
        "state": "scheduled",
        "tags": ["one", "two"],
        "unique_key": KEY,
        "unique_states": "11110101",
    }
    assert second == {
        **second,
        "args": {},
        "attempted_by": None,
        "errors": None,
        "max_attempts": 25,
        "metadata": {},
        "priority": 1,
        "queue": "default",
        "state": "available",
        "tags": [],
        "unique_key": None,
        "unique_states": None,
    }
    if inserted:
        assert [one.unique_skipped_as_duplicate for one in inserted] == [False, False]
        assert [one.job.id for one in inserted] == [first["id"], second["id"]]
        for one in inserted:
            stored = await way.executor.jobs.row_get(one.job.id)
            assert stored is not None
            # The texts are those given; what they mean is what is stored.
            assert json.loads(one.job.args) == json.loads(stored.args)
            assert json.loads(one.job.metadata) == json.loads(stored.metadata)
            assert one.job == stored._replace(args=one.job.args, metadata=one.job.metadata)


@every_way
@pytest.mark.parametrize("fast", [False, True])
async def test_texts_of_every_kind(way: Way, fast: bool) -> None:
    jobs = [
        insert_params(
            kind=f"k{text}",
            args=json.dumps({"t": text, text: 1}),
            metadata=json.dumps({"t": text}, ensure_ascii=False),
            queue=f"q{text}",
            tags=(text, f"{text}x"),
        )
        for text in NASTY
    ]
    await _insert(way, jobs, fast=fast)
    rows = await way.make.rows("select * from river_job order by id")
    assert [row["args"] for row in rows] == [json.loads(job.args) for job in jobs]
    assert [row["metadata"] for row in rows] == [json.loads(job.metadata) for job in jobs]
    assert [(row["kind"], row["queue"], tuple(row["tags"])) for row in rows] == [
        (job.kind, job.queue, job.tags) for job in jobs
    ]


@every_way
@pytest.mark.parametrize("fast", [False, True])
async def test_columns_that_differ_and_columns_that_do_not(way: Way, fast: bool) -> None:
    jobs = [
        insert_params(
            kind=f"kind_{n}",
            args=json.dumps({"n": n}),
            created_at=NOW + timedelta(microseconds=n),
            scheduled_at=NOW + timedelta(seconds=n),
            state=[JobState.AVAILABLE, JobState.SCHEDULED, JobState.PENDING][n % 3],
            max_attempts=n + 1,
            metadata=json.dumps({"m": n}),
            priority=1 + n % 4,
            queue=f"queue_{n % 2}",
            tags=tuple(f"tag_{i}" for i in range(n % 4)),
        )
        for n in range(50)
    ]
    await _insert(way, jobs, fast=fast)
    await _insert(way, [insert_params(kind="same", args='{"n": 1}', tags=("t",))] * 50, fast=fast)
    rows = await way.make.rows("select * from river_job order by id")
    assert [
        (
            row["kind"],
            json.dumps(row["args"]),
            row["created_at"],
            row["scheduled_at"],
            row["state"],
            row["max_attempts"],
            json.dumps(row["metadata"]),
            row["priority"],
            row["queue"],
            tuple(row["tags"]),
        )
        for row in rows[:50]
    ] == [
        (
            job.kind,
            job.args,
            job.created_at,
            job.scheduled_at,
            job.state.value,
            job.max_attempts,
            job.metadata,
            job.priority,
            job.queue,
            job.tags,
        )
        for job in jobs
    ]
    assert {(row["kind"], row["args"]["n"], *row["tags"]) for row in rows[50:]} == {
        ("same", 1, "t")
    }
    assert len(rows) == 100


@every_way
async def test_nothing_to_insert(way: Way) -> None:
    async with hearing(way.driver, "river_insert") as heard:
        assert list(await way.executor.jobs.insert_many([], notify=["q"])) == []
    assert heard == []
    assert await way.executor.jobs.insert_many_fast([]) == 0


@pytest.mark.parametrize("fast", [False, True])
async def test_more_attempts_than_the_column_holds(way: Way, fast: bool) -> None:
    inserted = await _insert(
        way, [insert_params(max_attempts=100_000), insert_params(max_attempts=3)], fast=fast
    )
    rows = await way.make.rows("select max_attempts from river_job order by id")
    assert [row["max_attempts"] for row in rows] == [32_767, 3]
    assert [one.job.max_attempts for one in inserted] in ([], [32_767, 3])


@every_way
async def test_a_taken_key_gives_the_row_that_has_it(way: Way) -> None:
    await way.make.queue("untouched")
    taken = await way.make.job(
        "retryable",
        kind="before",
        args={"who": "first"},
        unique_key=KEY,
        unique_states="11110101",
        tags=["t", 'u"'],
        metadata={"big": 12345678901234567890},
        attempted_by=["a", "b"],
    )
    before = await way.make.row(taken)
    jobs = [
        insert_params(args='{"n":1}'),
        insert_params(kind="after", args='{"who":"second"}', unique_key=KEY, unique_states=USUAL),
        insert_params(args='{"n":3}', unique_key=b"other", unique_states=USUAL),
    ]
    fresh, twin, other = await way.executor.jobs.insert_many(jobs)
    assert [
        fresh.unique_skipped_as_duplicate,
        twin.unique_skipped_as_duplicate,
        other.unique_skipped_as_duplicate,
    ] == [False, True, False]
    assert twin.job == await way.executor.jobs.row_get(taken)
    assert twin.job.kind == "before", "under exclude_kind the existing kind stays"
    assert twin.job.metadata == '{"big": 12345678901234567890}'
    assert await way.make.row(taken) == before
    assert fresh.job.id < other.job.id
    assert len(await way.make.rows("select from river_job")) == 3


@every_way
async def test_equal_keys_in_one_call(way: Way) -> None:
    """River's own statement fails on them."""
    key: dict[str, Any] = {"unique_key": KEY, "unique_states": USUAL}
    jobs = [
        insert_params(args='{"n":0}'),
        insert_params(args='{"n":1}', **key),
        insert_params(args='{"n":2}', unique_key=b"b", unique_states=USUAL),
        insert_params(args='{"n":3}', **key),
        insert_params(args='{"n":4}'),
        insert_params(args='{"n":5}', **key),
    ]
    inserted = await way.executor.jobs.insert_many(jobs)
    assert [one.unique_skipped_as_duplicate for one in inserted] == [
        False,
        False,
        False,
        True,
        False,
        True,
    ]
    assert [json.loads(one.job.args)["n"] for one in inserted] == [0, 1, 2, 1, 4, 1]
    assert inserted[3].job == inserted[1].job == inserted[5].job
    again = await way.executor.jobs.insert_many(jobs)
    assert [one.unique_skipped_as_duplicate for one in again] == [
        False,
        True,
        True,
        True,
        False,
        True,
    ]
    assert again[3].job.id == inserted[1].job.id


async def test_a_key_without_states_is_not_unique(way: Way) -> None:
    jobs = [insert_params(unique_key=KEY), insert_params(unique_key=KEY)]
    inserted = await way.executor.jobs.insert_many(jobs)
    assert [one.unique_skipped_as_duplicate for one in inserted] == [False, False]
    rows = await way.make.rows("select unique_key, unique_states from river_job")
    assert [(row["unique_key"], row["unique_states"]) for row in rows] == [(KEY, None)] * 2


@every_way
async def test_a_twin_with_a_time_beyond_the_calendar(way: Way) -> None:
    with cases() as case:
        for at in ("infinity", "-infinity", "0044-03-15 BC", "20000-01-01"):
            with case(at):
                await way.make.connection.execute("delete from river_job")
                await way.make.job(unique_key=KEY, unique_states="11110101", scheduled_at=at)
                (twin,) = await way.executor.jobs.insert_many(
                    [insert_params(unique_key=KEY, unique_states=USUAL)]
                )
                assert twin.unique_skipped_as_duplicate
                end = datetime.min if at.startswith("-") or at.endswith("BC") else datetime.max  # noqa: DTZ901
                assert twin.job.scheduled_at == end.replace(tzinfo=UTC)
                if way.name != "asyncpg":
                    # Which cannot read such times in columns of their own.
                    assert twin.job == await way.executor.jobs.row_get(twin.job.id)


@every_way
async def test_copying_a_taken_key_conflicts(way: Way) -> None:
    jobs = [insert_params(), insert_params(unique_key=KEY, unique_states=USUAL)]
    assert await way.executor.jobs.insert_many_fast(jobs) == 2
    with pytest.raises(UniqueConflict):
        await way.executor.jobs.insert_many_fast(jobs)
    assert len(await way.make.rows("select from river_job")) == 2
    assert await way.executor.jobs.insert_many_fast(jobs[:1]) == 1, "the executor still works"


@every_way
@pytest.mark.parametrize("fast", [False, True])
async def test_workers_are_told_once_a_queue(way: Way, fast: bool) -> None:
    async with hearing(way.driver, "river_insert", "river_control") as heard:
        await _insert(way, [insert_params()], fast=fast, notify=["a", "b", "a", 'nasty " \\ {'])
        await _insert(way, [insert_params()], fast=fast)
    assert [topic for topic, _ in heard] == ["river_insert"] * 3
    assert [json.loads(payload) for _, payload in heard] == [
        {"queue": "a"},
        {"queue": "b"},
        {"queue": 'nasty " \\ {'},
    ]


async def test_workers_are_told_of_twins_as_well(way: Way) -> None:
    job = insert_params(unique_key=KEY, unique_states=USUAL)
    await way.executor.jobs.insert_many([job])
    async with hearing(way.driver, "river_insert") as heard:
        await way.executor.jobs.insert_many([job], notify=["default"])
    assert heard == [("river_insert", '{"queue": "default"}')]


async def test_a_rolled_back_insert_notifies_no_worker(driver: Driver, make: Make) -> None:
    async with hearing(driver, "river_insert") as heard:
        with suppress(ZeroDivisionError):
            async with driver.transaction() as transaction:
                await transaction.jobs.insert_many([insert_params()], notify=["default"])
                await transaction.jobs.insert_many_fast([insert_params()], notify=["default"])
                raise ZeroDivisionError
    assert heard == []
    assert await make.rows("select from river_job") == []


@every_way
@pytest.mark.parametrize("fast", [False, True])
async def test_what_cannot_be_stored(way: Way, fast: bool) -> None:
    with cases() as case:
        for params in (
            {"kind": "a\0b"},
            {"args": '{"a": "\0"}'},
            {"queue": "a\ud800"},
            {"tags": ("fine", "a\0b")},
            {"metadata": '{"a": "\udfff"}'},
            {"args": '{"a": "\\u0000"}'},
            {"args": '{"a": '},
            {"metadata": "not json"},
        ):
            with case(params):
                with pytest.raises(BadRequest):
                    await _insert(way, [insert_params(), insert_params(**params)], fast=fast)
                assert await way.make.rows("select from river_job") == []
                await _insert(way, [insert_params()], fast=fast)
                await way.make.connection.execute("delete from river_job")


async def test_what_the_table_refuses(way: Way) -> None:
    with cases() as case:
        for params in ({"priority": 5}, {"kind": ""}, {"tags": ("x" * 256,)}, {"queue": "q" * 128}):
            with case(str(params)[:40]), pytest.raises(DatabaseError):
                await way.executor.jobs.insert_many([insert_params(**params)])


async def test_two_who_insert_the_same_key_at_once(driver: Driver, make: Make) -> None:
    jobs = [insert_params(unique_key=bytes([n]), unique_states=USUAL) for n in range(20)]

    async def insert() -> list[InsertResult]:
        async with driver.autocommit() as executor:
            return list(await executor.jobs.insert_many(jobs))

    answers = await asyncio.gather(*(insert() for _ in range(4)))
    rows = await make.rows("select id from river_job")
    assert len(rows) == 20
    for answered in zip(*answers, strict=True):
        assert len({one.job.id for one in answered}) == 1
        assert sum(not one.unique_skipped_as_duplicate for one in answered) == 1


@pytest.fixture
async def two_urls(database_url: str) -> AsyncIterator[AsyncConnection[Any]]:
    """Yield a second connection to this test's database, not in autocommit mode."""
    async with await AsyncConnection.connect(database_url) as connection:
        yield connection


async def test_a_key_that_is_not_committed(driver: Driver, two_urls: AsyncConnection[Any]) -> None:
    job = insert_params(unique_key=KEY, unique_states=USUAL)
    other = await driver.adopt(two_urls)
    (first,) = await other.jobs.insert_many([job])

    async def insert() -> InsertResult:
        async with driver.autocommit() as executor:
            return (await executor.jobs.insert_many([job]))[0]

    waiting = asyncio.create_task(insert())
    await asyncio.sleep(0.1)
    assert not waiting.done(), "whether the key is taken is not known yet"
    await two_urls.commit()
    second = await waiting
    assert second.unique_skipped_as_duplicate
    assert second.job.id == first.job.id


async def test_inserts_of_the_same_keys_do_not_deadlock(driver: Driver, make: Make) -> None:
    def jobs(at: int) -> list[JobInsertParams]:
        numbers = range(300) if at % 2 else range(299, -1, -1)
        return [
            insert_params(
                args=f'{{"n":{n}}}', unique_key=b"key %d" % (n * 7919 % 300), unique_states=USUAL
            )
            for n in numbers
        ]

    async def insert(at: int) -> Sequence[InsertResult]:
        async with driver.transaction() as tx:
            return await tx.jobs.insert_many(jobs(at))

    for _ in range(5):
        for found in await asyncio.gather(*(insert(at) for at in range(4))):
            assert len(found) == 300
        await make.execute("delete from river_job")


async def test_ids_and_answers_come_in_the_order_of_the_jobs(way: Way) -> None:
    keys = [b"c", None, b"a", b"c", b"b", None, b"\xff", b"\x00"]
    jobs = [
        insert_params(args=f'{{"n":{n}}}', unique_key=key, unique_states=USUAL if key else 0)
        for n, key in enumerate(keys)
    ]
    inserted = await way.executor.jobs.insert_many(jobs)
    fresh = [answer for answer in inserted if not answer.unique_skipped_as_duplicate]
    assert [answer.unique_skipped_as_duplicate for answer in inserted] == [
        n == 3 for n in range(len(keys))
    ]
    assert inserted[3].job.id == inserted[0].job.id
    ids = [answer.job.id for answer in fresh]
    assert ids == sorted(ids)
    rows = {
        row["id"]: row for row in await way.make.rows("select id, args, unique_key from river_job")
    }
    for answer in fresh:
        row = rows[answer.job.id]
        assert json.loads(answer.job.args) == row["args"]
        assert answer.job.unique_key == row["unique_key"]
        assert keys[row["args"]["n"]] == row["unique_key"]
