"""Dead letters in `riverui_dead_job`, on Postgres and SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from riverui.domain.jobs import JobState, state_bits
from riverui.errors import DatabaseError
from riverui.features.dead_letters.domain import DeadJobListRow, DeadReason
from riverui.features.dead_letters.store import DeadJobListParams, DeadLetterStore
from riverui.storage.interface import Driver
from riverui.storage.interface.engine_params import JobDeleteBeforeParams, JobSelectParams
from riverui.storage.interface.job_actions import SkipReason
from tests.factory import Make, attempt_error
from tests.features.both import SqliteMake, database, driver, driver_url, file, make

__all__ = ["database", "driver", "driver_url", "file", "make"]

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
OLD = JobDeleteBeforeParams(
    cancelled_before=AT, completed_before=AT, discarded_before=AT, limit=100
)


async def move(driver: Driver) -> int:
    """Move what is past its retention; return how many jobs are gone."""
    async with driver.transaction() as db:
        return await DeadLetterStore(db).dead_job_move_before(OLD)


async def test_discarded_jobs_are_moved_whole(driver: Driver, make: Make | SqliteMake) -> None:
    job_id = await make.job(
        "discarded",
        kind="mail_send",
        queue="mail",
        args={"to": "ann"},
        metadata={"output": {"n": 1}, "k": "v"},
        tags=["a", "b"],
        attempt=2,
        attempted_by=["one", "two"],
        errors=[attempt_error(1, "first"), attempt_error(2, "It broke “here”")],
        finalized_at=AT - timedelta(days=1),
    )
    await make.job("completed", finalized_at=AT - timedelta(days=1))
    await make.job("discarded", finalized_at=AT + timedelta(days=1))
    assert await move(driver) == 2
    assert await move(driver) == 0
    async with driver.reading() as db:
        store = DeadLetterStore(db)
        (row,) = (await store.dead_job_list(DeadJobListParams())).rows
        shown = await store.dead_job_get(job_id)
        text = await store.dead_job_text_get(job_id)
        whole = await store.dead_job_row_get(job_id)
        output = await store.dead_job_text_piece(job_id, "output", size=100)
        part = await store.dead_job_text_piece(job_id, "args", start=1, size=4)
        everything = await store.dead_job_text_piece(job_id, "job", size=10_000)
        assert await store.dead_job_get(job_id + 9) is None
        assert await store.dead_job_text_piece(job_id + 9, "args", size=9) is None
    assert (row.job.id, row.job.last_error, row.reason) == (
        job_id,
        "It broke “here”",
        DeadReason.DISCARDED,
    )
    assert json.loads(row.job.args_preview) == {"to": "ann"}
    assert shown is not None
    assert (shown.job.state, shown.job.tags) == (JobState.DISCARDED, ("a", "b"))
    assert [error.error for error in shown.job.errors] == ["first", "It broke “here”"]
    assert text is not None
    assert text[0].attempted_by == ("one", "two")
    assert whole is not None
    assert json.loads(whole.job.metadata) == {"output": {"n": 1}, "k": "v"}
    assert [error.attempt for error in whole.job.errors] == [1, 2]
    assert output is not None
    assert json.loads(output.data) == {"n": 1}
    assert part is not None
    # SQLite writes JSON without spaces.
    assert (part.data, part.size) in ((b'"to"', 13), (b'"to"', 12))
    assert everything is not None
    found = json.loads(everything.data)
    assert (found["args"], found["reason"], found["kind"]) == (
        {"to": "ann"},
        "discarded",
        "mail_send",
    )


async def test_lists_counts_and_names(driver: Driver, make: Make | SqliteMake) -> None:
    ids = [
        await make.job(
            "discarded",
            kind=f"kind_{n % 2}",
            queue="Mail" if n < 3 else "other",
            priority=n % 4 + 1,
            tags=["even"] if n % 2 == 0 else [],
            errors=[attempt_error(error=f"Error {n}")],
            finalized_at=AT - timedelta(days=1),
        )
        for n in range(5)
    ]
    await move(driver)
    async with driver.reading() as db:
        store = DeadLetterStore(db)
        first = await store.dead_job_list(DeadJobListParams(limit=2))
        last = first.rows[-1]
        rest = await store.dead_job_list(DeadJobListParams(after=(last.died_at, last.job.id)))
        assert [row.job.id for row in (*first.rows, *rest.rows)] == ids[::-1]
        assert (first.more, rest.more) == (True, False)
        of_kind = DeadJobListParams(kind="kind_0", queue="Mail")
        assert [row.job.id for row in (await store.dead_job_list(of_kind)).rows] == [ids[2], ids[0]]
        assert (await store.dead_job_count(of_kind)).value == 2
        broken = await store.dead_job_list(DeadJobListParams(error="ERROR 3"))
        assert [row.job.id for row in broken.rows] == [ids[3]]
        few = await store.dead_job_list(DeadJobListParams(error="error 0", window=2))
        assert (list(few.rows), few.searched and few.searched[1]) == ([], ids[3])
        assert (await store.dead_job_count(DeadJobListParams(error="x", window=2))).value == 0
        assert await store.dead_job_name_list(limit=9) == (["kind_0", "kind_1"], ["Mail", "other"])
        assert await store.dead_job_name_list(limit=9, prefix="KIND", exclude=["kind_1"]) == (
            ["kind_0"],
            [],
        )
        whole = await store.dead_job_whole_list(DeadJobListParams(limit=3))
        assert [job.id for job in whole] == ids[:1:-1]
        for params, expected in (
            (JobSelectParams(ids=(ids[0], ids[4])), [ids[4], ids[0]]),
            (JobSelectParams(kinds=("kind_1",), queues=("Mail",)), [ids[1]]),
            (JobSelectParams(priorities=(1,), limit=1), [ids[4]]),
            (JobSelectParams(tags_any=("odd", "even")), [ids[4], ids[2], ids[0]]),
            (JobSelectParams(kinds=('"', "\\")), []),
        ):
            rows = await store.dead_job_select_list(params)
            assert [row.job.id for row in rows] == expected, params


async def test_they_are_restored_or_removed(driver: Driver, make: Make | SqliteMake) -> None:
    key = {"unique_key": b"\x01", "unique_states": _states("available", "discarded")}
    gone = {"finalized_at": AT - timedelta(days=1)}
    plain = await make.job("discarded", **gone)
    taken = await make.job("discarded", **gone, **key)
    await move(driver)
    await make.job("available", **key)
    async with driver.transaction() as db:
        store = DeadLetterStore(db)
        changes = await store.dead_job_restore_many([plain, taken, 999, 2**70])
        assert list(changes.changed) == [plain]
        assert dict(changes.skipped) == {
            taken: SkipReason.UNIQUE_CONFLICT,
            999: SkipReason.NOT_FOUND,
            2**70: SkipReason.NOT_FOUND,
        }
        row = await db.jobs.row_get(plain)
        assert row is not None
        assert (row.state, row.attempt, row.errors) == (JobState.DISCARDED, 0, ())
        assert [each.job.id for each in await _listed(store)] == [taken]
        assert (await _listed(store))[0].job.state is JobState.DISCARDED
        removed = await store.dead_job_delete_many([taken, plain])
        assert (list(removed.changed), len(removed.skipped)) == ([taken], 1)
    await make.execute("update river_job set finalized_at = %s where id = %s", [AT, plain])
    async with driver.transaction() as db:
        later = datetime.now(UTC) + timedelta(hours=1)
        store = DeadLetterStore(db)
        await store.dead_job_keep_many([plain], user="")
        assert await store.dead_job_delete_before(AT, limit=9) == 0
        assert await store.dead_job_delete_before(later, limit=9) == 1


async def test_a_job_with_the_id_of_a_dead_letter_stays(
    driver: Driver, make: Make | SqliteMake
) -> None:
    job_id = await make.job("discarded", finalized_at=AT - timedelta(days=1))
    async with driver.transaction() as db:
        await DeadLetterStore(db).dead_job_keep_many([job_id], user="")
    with pytest.raises(DatabaseError):
        await move(driver)
    async with driver.transaction() as db:
        changes = await DeadLetterStore(db).dead_job_undo_many([job_id])
    assert dict(changes.skipped) == {job_id: SkipReason.UNIQUE_CONFLICT}
    assert await make.states() == {job_id: "discarded"}


async def test_a_deletion_is_undone(driver: Driver, make: Make | SqliteMake) -> None:
    waiting = await make.job("available", metadata={"k": 1})
    in_line = await make.job("pending", metadata={"seq_key": "a"})
    task = await make.job("pending", metadata={"workflow_id": "w"})
    running = await make.job("running")
    ids = [waiting, in_line, task, running, 999]
    async with driver.transaction() as db:
        store = DeadLetterStore(db)
        kept = await store.dead_job_keep_many(ids, user="ada")
        assert sorted(kept.changes.changed) == [waiting, in_line, task]
        assert dict(kept.changes.skipped) == {
            running: SkipReason.RUNNING,
            999: SkipReason.NOT_FOUND,
        }
        again = await store.dead_job_keep_many([waiting], user="ada")
        assert [reason for _, reason in again.changes.skipped] in (
            [SkipReason.KEPT],
            # SQLite's times are milliseconds, and both may have the same.
            [],
        )
        await db.jobs.delete_many(kept.changes.changed)
        assert (await _listed(store))[-1].deleted_by == "ada"
    async with driver.transaction() as db:
        store = DeadLetterStore(db)
        found = await store.dead_job_deleted_list(kept.died_at, user="ada", limit=10)
        assert sorted(found) == [waiting, in_line, task]
        assert list(await store.dead_job_deleted_list(kept.died_at, user="eve", limit=10)) == []
        changes = await store.dead_job_undo_many(found)
        assert (list(changes.changed), list(changes.requested)) == ([waiting], [in_line])
        assert dict(changes.skipped) == {task: SkipReason.WORKFLOW}
        row = await db.jobs.row_get(waiting)
        assert row is not None
        assert (row.state, json.loads(row.metadata)) == (JobState.AVAILABLE, {"k": 1})
        assert [each.job.id for each in await _listed(store)] == [task]


async def _listed(store: DeadLetterStore) -> Sequence[DeadJobListRow]:
    return (await store.dead_job_list(DeadJobListParams())).rows


def _states(*names: str) -> str:
    return f"{state_bits(JobState(name) for name in names):08b}"
