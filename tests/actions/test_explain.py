"""Why a job is not running: each cause is made in a real database, and named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from riverui.actions.explain import job_explain
from riverui.domain.findings import Result
from riverui.domain.jobs import JobState
from riverui.domain.queues import BatchTerms, QueueTerms
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.testing import MemoryDatabase
from tests.contract.seeds import insert, job as to_insert
from tests.explanations import FAILED, PASSED, UNKNOWN, Connection, checks, explained, results
from tests.factory import WORKER, attempt_error, client, job, leader, queue
from tests.own_tables import OWN_TABLES


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


async def ended(connection: Connection, **columns: Any) -> int:
    """Insert a job that a client took a minute ago."""
    times = {"attempted_at": ago(minutes=1), "finalized_at": ago(seconds=50)}
    return await job(connection, "completed", **times | columns)


async def test_nothing_holds_the_next_job_up(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await ended(connection)
    found = await explained(driver, await job(connection))
    assert found.result is not FAILED
    assert found.headline == "It is next in line, and nothing was found that holds it up."
    assert set(results(found).values()) == {PASSED}
    assert [*results(found)] == [
        *("state", "due", "paused", "served", "kind", "lock", "priority", "line", "slots")
    ]


async def test_a_kind_that_nobody_takes(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await ended(connection, scheduled_at=ago(minutes=6))
    new = await explained(driver, await job(connection, kind="mail_sent"))
    assert new.headline == "It is next in line, and nothing was found that holds it up."
    old = await explained(
        driver, await job(connection, kind="mail_sent", scheduled_at=ago(minutes=5))
    )
    assert old.result is not FAILED
    assert old.headline == (
        "It is next in line, but no job of kind mail_sent was taken recently: perhaps no client of"
        " its queue has a worker for it."
    )


async def overtaken(connection: Connection, **columns: Any) -> int:
    """Insert a job that has been due for 10 minutes, and three younger ones that a client took."""
    await ended(connection, kind="old_mail", attempted_at=ago(hours=1), attempted_by=["web-1"])
    for _ in range(3):
        await ended(connection, scheduled_at=ago(minutes=5), attempted_at=ago(minutes=4))
    return await job(connection, kind="old_mail", scheduled_at=ago(minutes=10), **columns)


async def kind(driver: Driver, job_id: int) -> tuple[Result, str]:
    found = await explained(driver, job_id)
    check = next(check for check in found.checks if check.name == "kind")
    assert (found.headline == check.evidence) is (check.result is FAILED)
    return check.result, check.evidence


async def test_a_kind_that_no_live_client_works(driver: Driver, connection: Connection) -> None:
    await connection.execute(OWN_TABLES)
    await queue(connection)
    waiting = await overtaken(connection)
    since = (
        " 3 younger jobs of its queue have overtaken it. One of this kind was last taken 1 h 0 m"
        " ago by web-1."
    )
    await client(driver, WORKER, kinds=["test_kind"])
    nobody = f"No live client works jobs of kind old_mail.{since}"
    assert await kind(driver, waiting) == (FAILED, nobody)
    # A job that is not due yet is not overtaken, but nobody will work it either.
    later = await job(connection, "scheduled", kind="old_mail")
    check = next(c for c in (await explained(driver, later)).checks if c.name == "kind")
    assert (check.result, check.evidence.partition(".")[0]) == (FAILED, nobody.partition(".")[0])
    # An older riverui does not report its kinds.
    await client(driver, "silent", kinds=None)
    seems = f"No client seems to work jobs of kind old_mail.{since}"
    assert await kind(driver, waiting) == (FAILED, seems)
    await client(driver, "web-2", kinds=["test_kind", "old_mail"])
    assert await kind(driver, waiting) == (PASSED, "web-2 works jobs of kind old_mail.")


async def test_a_client_that_reports_nothing_may_work_the_kind(
    driver: Driver, connection: Connection
) -> None:
    await connection.execute(OWN_TABLES)
    await queue(connection)
    await client(driver, "web-2", kinds=["test_kind"])
    waiting = await job(connection, kind="go_mail", scheduled_at=ago(minutes=10))
    nobody = "No live client works jobs of kind go_mail."
    assert await kind(driver, waiting) == (FAILED, nobody)
    await ended(connection, scheduled_at=ago(minutes=20), attempted_by=["go"])
    assert await kind(driver, waiting) == (
        UNKNOWN,
        "No client that reports its kinds works jobs of kind go_mail; go reports none.",
    )
    await ended(connection, kind="go_mail", attempted_at=ago(seconds=20), attempted_by=["go"])
    assert (await kind(driver, waiting))[0] is PASSED
    await job(connection, "running", kind="go_mail", attempted_by=["go"])
    assert await kind(driver, waiting) == (PASSED, "go runs a job of kind go_mail.")


async def test_jobs_that_overtake_on_rivers_tables_alone(
    driver: Driver, connection: Connection
) -> None:
    await queue(connection)
    waiting = await overtaken(connection)
    seems = "No client seems to work jobs of kind old_mail. 3 younger jobs of its queue have"
    result, evidence = await kind(driver, waiting)
    assert (result, evidence[: len(seems)]) == (FAILED, seems)
    # Jobs that it is not behind of say nothing, nor do those that were taken before it was due.
    fresh = await job(connection, kind="old_mail", scheduled_at=ago(minutes=4, seconds=5))
    urgent = await job(connection, kind="old_mail", scheduled_at=ago(minutes=10), priority=2)
    for spared in (fresh, urgent):
        assert (await kind(driver, spared))[0] is PASSED
    # Whoever locks its row makes clients pass it over.
    async with connection.transaction():
        await connection.execute("select from river_job where id = %s for update", [waiting])
        assert (await kind(driver, waiting))[0] is PASSED
    # One of its kind was taken since.
    await ended(connection, kind="old_mail", attempted_by=["web-1"])
    assert (await kind(driver, waiting))[0] is PASSED


async def test_a_kind_that_clients_take_and_do_not_know(
    driver: Driver, connection: Connection
) -> None:
    await queue(connection)
    await job(
        connection,
        "retryable",
        kind="old_mail",
        attempted_at=ago(hours=3),
        attempted_by=["go"],
        errors=[attempt_error(error="job kind is not registered in the client's Workers bundle")],
    )
    waiting = await job(connection, kind="old_mail")
    assert await kind(driver, waiting) == (
        FAILED,
        "A job of kind old_mail was taken 3 h 0 m ago, and failed: its client has no worker for"
        " it.",
    )


async def test_there_is_no_such_job(driver: Driver) -> None:
    assert await job_explain(driver, 7, ()) is None


async def test_a_job_that_is_not_due(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await leader(connection)
    found = await explained(
        driver, await job(connection, "scheduled", scheduled_at=ago(minutes=-65.5))
    )
    assert found.headline == "It is due in 1 h 5 m."
    assert results(found)["leader"] is PASSED
    assert "line" not in results(found)
    at = datetime.now(UTC) + timedelta(minutes=5, seconds=30)
    found = await explained(driver, await job(connection, scheduled_at=at))
    assert found.headline.startswith("It is due in 5 m")


async def test_a_retry_that_is_pending(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await leader(connection)
    found = await explained(
        driver, await job(connection, "retryable", scheduled_at=ago(minutes=-65.5))
    )
    assert found.headline == "It will be retried in 1 h 5 m."
    assert "Attempt 1 of 25 failed" in found.checks[0].evidence


@pytest.mark.parametrize("term", [None, timedelta(seconds=-30)], ids=["none", "run out"])
async def test_nobody_leads(driver: Driver, connection: Connection, term: timedelta | None) -> None:
    await queue(connection)
    if term is not None:
        await leader(connection, expires_at=datetime.now(UTC) + term)
    found = await explained(driver, await job(connection, "scheduled", scheduled_at=ago(minutes=3)))
    assert found.headline.startswith("There is no leader at the moment")
    waits = await explained(driver, await job(connection))
    assert "leader" not in results(waits), "it needs none"


async def test_the_leader_is_late(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await leader(connection)
    late = await job(connection, "scheduled", scheduled_at=ago(minutes=3))
    found = await explained(driver, late)
    assert "but River's leader has not made it available yet" in found.headline


async def test_a_paused_queue(driver: Driver, connection: Connection) -> None:
    await queue(connection, paused_at=ago(minutes=20))
    found = await explained(driver, await job(connection))
    assert found.headline.startswith("Its queue has been paused for 20 m")


async def test_nobody_serves_the_queue(driver: Driver, connection: Connection) -> None:
    await queue(connection, "mail", updated_at=ago(minutes=14))
    waiting = await job(connection, queue="mail")
    found = await explained(driver, waiting)
    assert found.headline.startswith("No client serves queue mail: no client has reported it for")
    await ended(connection, queue="mail")
    found = await explained(driver, waiting)
    assert results(found)["served"] is PASSED
    assert WORKER in next(c.evidence for c in found.checks if c.name == "served")
    never = await explained(driver, await job(connection, queue="nobodys"))
    assert never.headline == "No client has ever served its queue, nobodys."


async def test_a_pending_job_waits_for_its_release(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    found = await explained(driver, await job(connection, "pending"))
    assert found.headline.startswith("River does not start pending jobs by itself")


async def test_a_kind_that_the_clients_do_not_know(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await ended(connection, kind="another")
    found = await explained(driver, await job(connection))
    assert results(found)["kind"] is UNKNOWN
    error = "job kind is not registered in the client's Workers bundle: test_kind"
    refused = await job(connection, attempt=1, errors=[attempt_error(error=error)])
    found = await explained(driver, refused)
    assert results(found)["kind"] is FAILED
    assert "has no worker for the kind test_kind" in found.headline


async def test_the_holder_of_a_lock(
    driver: Driver, connection: Connection, database_url: str
) -> None:
    await queue(connection)
    waiting = await job(connection)
    with psycopg.connect(database_url, application_name="a forgotten psql") as other:
        other.execute("select from river_job where id = %s for update", [waiting])
        found = await explained(driver, waiting)
        assert f"process {other.info.backend_pid} (a forgotten psql)" in found.headline
        assert found.headline.endswith(": clients pass it over.")
        assert "idle in transaction" in found.headline
        other.rollback()
    found = await explained(driver, waiting)
    assert results(found)["lock"] is UNKNOWN, "who has locked it last has ended"


async def test_its_place_in_line(driver: Driver, connection: Connection) -> None:
    """As River fetches: by priority, then by when a job was due, then by id."""
    await queue(connection)
    due = ago(minutes=5)
    same_before = await job(connection, scheduled_at=due)
    waiting = await job(connection, scheduled_at=due)
    await job(connection, scheduled_at=due)
    assert same_before < waiting
    await job(connection, scheduled_at=ago(minutes=6))
    await job(connection, scheduled_at=ago(minutes=4))
    await job(connection, scheduled_at=ago(minutes=6), priority=2)
    await job(connection, scheduled_at=ago(minutes=6), queue="another")
    await job(connection, "running", scheduled_at=ago(minutes=6))
    await job(connection, scheduled_at=datetime.now(UTC) + timedelta(minutes=1), priority=1)
    found = await explained(driver, waiting)
    assert found.headline == "2 jobs are before it in its queue."
    assert results(found)["slots"] is UNKNOWN


async def test_a_long_line_is_not_counted_to_its_end(
    driver: Driver, connection: Connection
) -> None:
    await queue(connection)
    await connection.execute(
        "insert into river_job (kind, args, scheduled_at)"
        " select 'test_kind', '{}', now() - interval '1 hour' from generate_series(1, 1200)"
    )
    found = await explained(driver, await job(connection))
    assert found.headline == "At least 1,000 jobs are before it in its queue."


async def test_when_its_turn_comes(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    for n in range(40):
        at = ago(seconds=n * 14 + 5)
        await ended(connection, scheduled_at=at, attempted_at=at, finalized_at=at)
    for _ in range(4):
        await job(connection, scheduled_at=ago(minutes=5))
    found = await explained(driver, await job(connection))
    assert found.headline == (
        "4 jobs are before it in its queue. As fast as its last 40 jobs ended, its turn comes in"
        " about 1 m 0 s."
    )


async def test_more_urgent_jobs_starve_it(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    waiting = await job(connection, priority=3, scheduled_at=ago(minutes=10))
    await job(connection, priority=1)
    await ended(connection, priority=1, attempted_at=ago(seconds=5))
    await ended(connection, priority=3, attempted_at=ago(minutes=8))
    found = await explained(driver, waiting)
    assert found.headline.startswith(
        "More urgent jobs keep it waiting: 1 more urgent job waits, and none of priority 3 or less"
        " was taken for 8 m"
    )
    await ended(connection, priority=3, attempted_at=ago(seconds=5))
    assert results(await explained(driver, waiting))["priority"] is PASSED


async def test_a_job_that_runs(driver: Driver, connection: Connection) -> None:
    await queue(connection)
    await leader(connection, "somebody")
    running = await job(connection, "running", attempted_at=ago(minutes=3))
    found = await explained(driver, running)
    assert found.result is not FAILED
    assert found.headline.startswith(f"It is running at {WORKER} for 3 m")
    assert results(found)["client"] is UNKNOWN
    assert "lock" not in results(found), "its own worker may hold one"
    await ended(connection)
    found = await explained(driver, running)
    assert results(found)["client"] is PASSED
    await connection.execute("update river_queue set updated_at = %s", [ago(hours=1)])
    found = await explained(driver, running)
    assert found.headline.startswith("No client has served its queue for 1 h")
    assert (results(found)["leader"], results(found)["lock"]) == (PASSED, PASSED)
    await connection.execute("delete from river_leader")
    assert results(await explained(driver, running))["leader"] is FAILED


async def test_a_job_that_has_ended(driver: Driver, connection: Connection) -> None:
    done = await explained(driver, await job(connection, "completed"))
    assert done.headline == "It has completed: there is nothing left to run."
    assert done.result is PASSED
    for state in ("discarded", "cancelled"):
        found = await explained(driver, await job(connection, state))
        assert found.headline.startswith(f"It has been {state}, and is not worked again unless")
        assert results(found) == {"state": FAILED}


async def test_a_job_in_a_sqlite_file() -> None:
    driver = MemoryDatabase()
    (waiting,) = await insert(driver, to_insert(state=JobState.SCHEDULED))
    found = results(await explained(driver, waiting))
    assert (found["kind"], found["lock"], found["leader"]) == (UNKNOWN, PASSED, FAILED)


@pytest.mark.parametrize(("taken", "result"), [(2, Result.FAILED), (1, Result.PASSED)])
async def test_slots_of_clients_that_report_them(
    driver: Driver, connection: Connection, taken: int, result: Result
) -> None:
    await migrate(driver, "up", line="riverui")
    await queue(connection)
    await job(connection, "running")
    waiting = await job(connection)
    await client(driver, queues={"default": (2, taken)}, running=taken)
    found = await explained(driver, waiting)
    assert results(found)["slots"] is result
    (evidence,) = (check.evidence for check in found.checks if check.name == "slots")
    assert evidence == f"{taken} of 2 slots of its client are taken."
    # Another client took a job, and reports no slots.
    await job(connection, "running", attempted_by=["go_client"])
    assert results(await explained(driver, waiting))["slots"] is UNKNOWN


async def test_a_running_job_may_wait_for_its_batch(driver: Driver, connection: Connection) -> None:
    batch = BatchTerms(max_count=100, max_delay=timedelta(hours=1))
    await migrate(driver, "up", line="riverui")
    await queue(connection)
    rules = {"default": QueueTerms(batches={"test_kind": batch})}
    await client(driver, queues={"default": (10, 0)}, terms=rules)
    running = await job(connection, "running", attempted_at=datetime.now(UTC))
    found = (await checks(driver, running))["batch"]
    assert found.result is PASSED
    assert found.evidence.startswith(
        "Jobs of its kind are worked together, up to 100 of them: the first waits 1 h 0 m at most"
        " for others. It may be waiting for another"
    )
    other = await job(connection, "running", kind="another")
    assert "batch" not in await checks(driver, other)
