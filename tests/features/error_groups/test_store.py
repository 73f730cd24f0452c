"""Failed jobs by their errors, read from rows of every kind, and the table of groups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.domain.jobs import JobState
from riverui.features.error_groups.domain.groups import (
    ErrorDecision,
    ErrorGroupSighting,
    ErrorState,
    JobErrorRow,
    Reopening,
)
from riverui.features.error_groups.failed_jobs import FailedJobStore
from riverui.features.error_groups.store import ErrorGroupStore
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from tests.factory import Make, attempt_error
from tests.features.both import SqliteMake, database, driver, driver_url, file, make

__all__ = ["database", "driver", "driver_url", "file", "make"]


def ago(**span: float) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) - timedelta(**span)


async def errors(driver: Driver, *ids: int) -> list[JobErrorRow]:
    async with driver.reading() as db:
        return sorted(await FailedJobStore(db).job_error_list(ids), key=lambda row: row.id)


async def test_the_newest_failed_jobs(driver: Driver, make: Make | SqliteMake) -> None:
    async with driver.reading() as db:
        assert await FailedJobStore(db).failed_job_list(limit=10) == ([], False)
    ids = {}
    for n, (state, queue, priority) in enumerate(
        [
            *(("retryable", "b", 1), ("discarded", "a", 1), ("retryable", "a", 4)),
            *(("retryable", "a", 1), ("discarded", "b", 2)),
        ]
    ):
        given = {"finalized_at": ago(minutes=n)} if state == "discarded" else {}
        ids[n] = await make.job(
            state, queue=queue, priority=priority, attempt=n, attempted_at=ago(minutes=n), **given
        )
    for state in ("available", "running", "scheduled", "completed", "cancelled", "pending"):
        await make.job(state, errors=[attempt_error()])
    async with driver.reading() as db:
        found = await FailedJobStore(db).failed_job_list(limit=10)
        some = await FailedJobStore(db).failed_job_list(limit=3)
        exact = await FailedJobStore(db).failed_job_list(limit=5)
    assert [place.id for place in found.places] == list(ids.values())
    assert [place.attempt for place in found.places] == [0, 1, 2, 3, 4]
    assert not found.more
    assert [place.id for place in some.places] == [ids[0], ids[1], ids[2]]
    assert some.more
    assert len(exact.places) == 5
    assert not exact.more


async def test_of_many_retryable_jobs_those_due_next_of_each_queue(
    driver: Driver, make: Make | SqliteMake
) -> None:
    for n in range(30):
        for queue in ("a", "b"):
            await make.job("retryable", queue=queue, scheduled_at=ago(minutes=-n))
    async with driver.reading() as db:
        found = await FailedJobStore(db).failed_job_list(limit=20)
        whole = await FailedJobStore(db).failed_job_list(limit=100)
    assert len(found.places) == 20
    assert found.more
    rows = await errors(driver, *[place.id for place in found.places])
    assert [row.queue for row in rows].count("a") == 10
    assert len(whole.places) == 60
    assert not whole.more


async def test_what_an_attempt_has_left(driver: Driver, make: Make | SqliteMake) -> None:
    job_id = await make.job(
        "retryable",
        kind="mail_send",
        queue="mail",
        attempt=2,
        attempted_by=["a", "b"],
        errors=[
            attempt_error(1, "first"),
            attempt_error(2, "second", trace="a trace", at="2026-11-21T10:00:00.5+01:00"),
        ],
        metadata={"riverui:fingerprint": "mine", "riverui:release": "v1.2"},
    )
    assert await errors(driver, job_id, job_id + 1) == [
        JobErrorRow(
            id=job_id,
            state=JobState.RETRYABLE,
            attempt=2,
            kind="mail_send",
            queue="mail",
            worker="b",
            release="v1.2",
            at=datetime(2026, 11, 21, 9, 0, 0, 500_000, tzinfo=UTC),
            error="second",
            trace="a trace",
            given="mine",
        )
    ]
    await make.execute("update river_job set state = 'available' where id = %s", [job_id])
    assert await errors(driver, job_id) == []


async def test_odd_and_hostile_rows(driver: Driver, make: Make | SqliteMake) -> None:
    at = ago(minutes=5)
    odd: list[tuple[dict[str, Any], str, str]] = [
        ({"errors": None}, "", ""),
        ({"errors": []}, "", ""),
        ({"errors": ["just a text"]}, '"just a text"', ""),
        ({"errors": [[1, 2]]}, "[1,2]", ""),
        ({"errors": [{"error": {"a": 1}, "trace": 5, "at": 7}]}, '{"a":1}', "5"),
        ({"errors": [{"at": "2026-99-99T00:00:00Z"}]}, "", ""),
        ({"attempted_by": None}, "it broke", ""),
        ({"attempted_by": ["x" * 1_000]}, "it broke", ""),
        ({"metadata": {"riverui:fingerprint": 7, "riverui:release": {}}}, "it broke", ""),
    ]
    ids = [
        await make.job("retryable", **({"attempted_at": at, "errors": [attempt_error()]} | columns))
        for columns, _, _ in odd
    ]
    found = await errors(driver, *ids)
    # SQLite writes JSON without spaces.
    assert [(row.error.replace(": ", ":").replace(", ", ","), row.trace) for row in found] == [
        (error, trace) for _, error, trace in odd
    ]
    assert [row.at for row in found[:6]] == [at] * 6
    assert (found[6].worker, len(found[7].worker)) == ("", 100)
    assert (found[8].given, found[8].release) == ("", "{}")


async def test_long_texts_are_cut_and_what_is_too_large_is_left_out(
    driver: Driver, make: Make | SqliteMake
) -> None:
    trace = "begin" + "é" * 20_000 + "end"
    long = await make.job("retryable", errors=[attempt_error(error="e" * 5_000, trace=trace)])
    noise = "".join(chr(33 + n * n % 89) + str(n) for n in range(80_000))
    large = await make.job(
        "retryable",
        errors=[attempt_error(error=noise)],
        metadata={"noise": noise, "riverui:fingerprint": "mine"},
    )
    found = await errors(driver, long, large)
    assert (len(found[0].error), len(found[0].trace)) == (2_000, 8_005)
    assert (found[0].trace[:5], found[0].trace[-3:]) == ("begin", "end")
    assert (found[1].error, found[1].given) == ("", "")


def seen(name: str, *, first: float, last: float, number: int = 1) -> ErrorGroupSighting:
    """Return what was seen of a group so many minutes ago."""
    return ErrorGroupSighting(
        fingerprint=f"fp1:{name}",
        title=f"{name} at {last}",
        first_at=NOW - timedelta(minutes=first),
        last_at=NOW - timedelta(minutes=last),
        number=number,
        sample_job_id=int(last),
    )


NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


async def test_groups_are_remembered(driver: Driver) -> None:
    async with driver.transaction() as db:
        assert await ErrorGroupStore(db).error_group_turn()
        await ErrorGroupStore(db).error_group_see(
            [seen("a", first=30, last=20, number=5), seen("b", first=9, last=9)], most=10
        )
    async with driver.transaction() as db:
        await ErrorGroupStore(db).error_group_see(
            [seen("a", first=40, last=10, number=2), seen("b", first=9, last=9, number=9)], most=10
        )
        # A dashboard that was behind.
        await ErrorGroupStore(db).error_group_see([seen("a", first=35, last=15, number=2)], most=10)
    async with driver.reading() as db:
        rows = {
            row.fingerprint: row
            for row in await ErrorGroupStore(db).error_group_list(["fp1:a", "fp1:b", "x"])
        }
    a, b = rows["fp1:a"], rows["fp1:b"]
    assert (a.number, a.sample_job_id, a.title) == (7, 10, "a at 10")
    assert (a.first_at, a.last_at) == (NOW - timedelta(minutes=40), NOW - timedelta(minutes=10))
    assert (b.number, b.decision, b.decided_at) == (
        1,
        ErrorDecision(state=ErrorState.UNRESOLVED),
        None,
    )


async def test_the_number_of_groups_is_limited(driver: Driver) -> None:
    async with driver.transaction() as db:
        await ErrorGroupStore(db).error_group_see([seen("a", first=3, last=3)], most=1)
        await ErrorGroupStore(db).error_group_see(
            [seen("a", first=3, last=1), seen("b", first=2, last=2)], most=1
        )
    async with driver.reading() as db:
        (row,) = await ErrorGroupStore(db).error_group_list(["fp1:a", "fp1:b"])
    assert row.sample_job_id == 1


async def test_one_dashboard_at_a_time_writes(database_url: str, own_tables: None) -> None:
    driver = connect(database_url)
    async with driver.transaction() as one, driver.transaction() as other:
        assert await ErrorGroupStore(one).error_group_turn()
        assert not await ErrorGroupStore(other).error_group_turn()
    async with driver.transaction() as other:
        assert await ErrorGroupStore(other).error_group_turn()
    await driver.close()


async def test_decisions(driver: Driver) -> None:
    group = seen("a", first=30, last=20)
    ignored = ErrorDecision(
        state=ErrorState.IGNORED, reason="vendor", until_at=NOW, until_rate=5, until_total=2**40
    )
    resolved = ErrorDecision(state=ErrorState.RESOLVED, release="v2", old_releases=("v1", "v2"))
    async with driver.transaction() as db:
        first = await ErrorGroupStore(db).error_group_decide(group, ignored, username="ops")
    async with driver.transaction() as db:
        second = await ErrorGroupStore(db).error_group_decide(group, resolved, username="dev")
    assert (first.decision, first.decided_by) == (ignored, "ops")
    assert (second.decision, second.decided_by) == (resolved, "dev")
    assert first.decided_at is not None
    assert second.decided_at is not None
    assert (second.number, second.last_at) == (1, group.last_at)

    # A later decision stays.
    async with driver.transaction() as db:
        await ErrorGroupStore(db).error_group_reopen(
            [Reopening(group.fingerprint, first.decided_at, NOW)]
        )
        assert list(await ErrorGroupStore(db).error_group_list([group.fingerprint])) == [second]
    async with driver.transaction() as db:
        await ErrorGroupStore(db).error_group_reopen(
            [Reopening(group.fingerprint, second.decided_at, NOW)]
        )
    async with driver.transaction() as db:
        (row,) = await ErrorGroupStore(db).error_group_list([group.fingerprint])
        again = await ErrorGroupStore(db).error_group_decide(group, resolved, username="dev")
    assert (row.decision.state, row.regressed_at) == (ErrorState.UNRESOLVED, NOW)
    assert again.regressed_at is None


async def test_old_groups_are_forgotten(driver: Driver) -> None:
    names = ("old", "older", "decided", "new")
    groups = {name: seen(name, first=9_000, last=5_000 + n) for n, name in enumerate(names)}
    groups["new"] = seen("new", first=9_000, last=5)
    async with driver.transaction() as db:
        await ErrorGroupStore(db).error_group_see(list(groups.values()), most=10)
        decision = ErrorDecision(state=ErrorState.IGNORED)
        await ErrorGroupStore(db).error_group_decide(groups["decided"], decision, username="ops")
        before = NOW - timedelta(minutes=1_000)
        assert await ErrorGroupStore(db).error_group_delete_before(before, limit=1) == 1
        assert await ErrorGroupStore(db).error_group_delete_before(before, limit=10) == 1
        assert await ErrorGroupStore(db).error_group_delete_before(before, limit=10) == 0
        left = await ErrorGroupStore(db).error_group_list(
            [group.fingerprint for group in groups.values()]
        )
    assert {row.fingerprint for row in left} == {"fp1:decided", "fp1:new"}
