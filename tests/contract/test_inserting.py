"""Inserting jobs, plainly, uniquely and fast."""

from __future__ import annotations

import pytest

from riverui.domain.jobs import JobState, state_bits
from riverui.errors import BadRequest, UniqueConflict
from riverui.storage.interface import Driver
from tests.contract.conftest import with_synchronous
from tests.contract.seeds import NOW, insert, job, row_of, running

pytestmark = with_synchronous

KEY = bytes(32)
STATES = state_bits([JobState.AVAILABLE, JobState.RUNNING])
UNIQUE = job(unique_key=KEY, unique_states=STATES)


async def test_a_job_is_stored_as_it_was_given(driver: Driver) -> None:
    given = job(
        "mail_send",
        args='{"to": "ann", "n": 9007199254740993}',
        metadata='{"trace": "ü"}',
        max_attempts=7,
        priority=3,
        queue="mailers",
        state=JobState.SCHEDULED,
        tags=("vip", "new"),
    )
    async with driver.autocommit() as executor:
        (inserted,) = await executor.jobs.insert_many([given], notify=["mailers"])
    row = await row_of(driver, inserted.job.id)
    assert not inserted.unique_skipped_as_duplicate
    assert (row.kind, row.queue, row.state) == ("mail_send", "mailers", "scheduled")
    assert (row.attempt, row.max_attempts, row.priority) == (0, 7, 3)
    assert (row.created_at, row.scheduled_at, row.attempted_at) == (NOW, NOW, None)
    assert (row.finalized_at, row.attempted_by, row.errors) == (None, (), ())
    assert (row.tags, row.unique_key) == (("vip", "new"), None)
    assert row.args_dict == {"to": "ann", "n": 9007199254740993}
    assert row.metadata_dict == {"trace": "ü"}
    assert inserted.job._replace(args=row.args, metadata=row.metadata) == row


async def test_answers_come_in_the_order_of_the_jobs(driver: Driver) -> None:
    async with driver.autocommit() as executor:
        inserted = await executor.jobs.insert_many([job(f"kind_{n}") for n in range(50)])
        assert list(await executor.jobs.insert_many([])) == []
    assert [each.job.kind for each in inserted] == [f"kind_{n}" for n in range(50)]
    ids = [each.job.id for each in inserted]
    assert ids == sorted(set(ids))


async def test_a_key_that_is_taken_gives_the_job_that_has_it(driver: Driver) -> None:
    (first,) = await insert(driver, UNIQUE)
    async with driver.autocommit() as executor:
        again, other, same = await executor.jobs.insert_many(
            [UNIQUE, *[UNIQUE._replace(unique_key=b"2" * 32)] * 2]
        )
    assert (again.unique_skipped_as_duplicate, again.job.id) == (True, first)
    assert (other.unique_skipped_as_duplicate, same.unique_skipped_as_duplicate) == (False, True)
    assert same.job.id == other.job.id != first
    assert (await row_of(driver, first)).unique_states == STATES


async def test_a_key_is_free_again_in_other_states(driver: Driver) -> None:
    (first,) = await running(driver, UNIQUE)
    async with driver.autocommit() as executor:
        (again,) = await executor.jobs.insert_many([UNIQUE])
        assert again.unique_skipped_as_duplicate
        await executor.work.complete_many([first], [NOW])
        (free,) = await executor.jobs.insert_many([UNIQUE])
    assert not free.unique_skipped_as_duplicate


async def test_fast_inserts_are_all_or_nothing(driver: Driver) -> None:
    async with driver.transaction() as transaction:
        assert await transaction.jobs.insert_many_fast([job("many")] * 3, notify=["default"]) == 3
        await transaction.jobs.insert_many_fast([UNIQUE])
    with pytest.raises(UniqueConflict, match=f"is of kind {UNIQUE.kind}, with the args"):
        async with driver.transaction() as transaction:
            await transaction.jobs.insert_many_fast([job("lost"), UNIQUE])
    async with driver.reading() as executor:
        assert list(await executor.jobs.kind_list()) == ["mail", "many"]


@pytest.mark.parametrize("text", ["\0", "\ud800"])
async def test_text_that_cannot_be_stored_is_a_bad_request(driver: Driver, text: str) -> None:
    with pytest.raises(BadRequest):
        await insert(driver, job(kind=f"a{text}b"))
