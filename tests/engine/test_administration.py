"""Jobs and queues managed by a client, with the methods of River's client, alone and in a
transaction.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from riverui.domain.jobs import JobRow, JobState
from riverui.engine.client import Client
from riverui.engine.job_lists import JobDeleteManyParams, JobListParams
from riverui.engine.work.context import record_output
from riverui.engine.work.worker import Job
from riverui.errors import BadRequest, JobRunning, LockTimeout, NotFound, UniqueConflict
from riverui.storage.connect import connect
from riverui.storage.interface import Driver
from riverui.storage.where import Where
from tests.cases import cases
from tests.engine.conftest import Playground, Task
from tests.factory import job, queue

UNIQUE = {"unique_key": b"k" * 32, "unique_states": "11110101"}
T0 = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def client(driver: Driver) -> Client:
    """Return a client that works nothing."""
    return Client(driver)


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[AsyncConnection[Any]]:
    """Yield the connection of a program that has its own transactions."""
    async with await AsyncConnection.connect(database_url) as opened:
        yield opened


async def row(connection: AsyncConnection[Any], job_id: int) -> dict[str, Any] | None:
    found = await (
        await connection.execute("select * from river_job where id = %s", [job_id])
    ).fetchone()
    return dict(found) if found else None


async def states(connection: AsyncConnection[Any], *job_ids: int) -> list[str | None]:
    found = [await row(connection, job_id) for job_id in job_ids]
    return [each["state"] if each else None for each in found]


async def test_a_job_is_given_whole(client: Client, connection: AsyncConnection[Any]) -> None:
    job_id = await job(connection, "retryable", args={"n": 1}, metadata={"m": [1]}, tags=["a", "b"])
    found = await client.job_get(job_id)
    stored = await row(connection, job_id)
    assert stored
    assert isinstance(found, JobRow)
    assert (found.id, found.state, found.kind) == (job_id, JobState.RETRYABLE, "test_kind")
    assert json.loads(found.args) == {"n": 1}
    assert json.loads(found.metadata) == {"m": [1]}
    assert found.tags == ("a", "b")
    assert found.errors[0].error == "it broke"
    for name in ("created_at", "scheduled_at", "attempted_at", "finalized_at", "max_attempts"):
        assert getattr(found, name) == stored[name]


async def test_a_job_that_does_not_exist_is_not_found(
    client: Client, other: AsyncConnection[Any]
) -> None:
    async def failing(coroutine: Any) -> None:
        with pytest.raises(NotFound, match="Job not found: 12345"):
            await coroutine

    for verb in ("get", "cancel", "retry", "delete", "update"):
        await failing(getattr(client, f"job_{verb}")(12345))
        await failing(getattr(client, f"job_{verb}_tx")(other, 12345))
    await failing(client.job_update(12345, output=1))


async def test_cancel(client: Client, connection: AsyncConnection[Any]) -> None:
    with cases() as case:
        for state in ("available", "pending", "retryable", "scheduled", "running"):
            with case(state):
                found = await client.job_cancel(await job(connection, state))
                running = state == "running"
                assert found.state is (JobState.RUNNING if running else JobState.CANCELLED)
                assert (found.finalized_at is None) == running
                assert "cancel_attempted_at" in found.metadata_dict
        for state in ("cancelled", "completed", "discarded"):
            with case(state):
                before = await client.job_get(await job(connection, state))
                assert await client.job_cancel(before.id) == before


async def test_retry(client: Client, connection: AsyncConnection[Any]) -> None:
    with cases() as case:
        for state in ("cancelled", "completed", "discarded", "pending", "retryable", "scheduled"):
            with case(state):
                job_id = await job(connection, state, attempt=25, max_attempts=25)
                found = await client.job_retry(job_id)
                assert (found.state, found.finalized_at) == (JobState.AVAILABLE, None)
                assert found.max_attempts == 26
                assert abs(found.scheduled_at - datetime.now(UTC)) < timedelta(seconds=10)
        for state in ("running", "available"):
            with case(state):
                before = await client.job_get(await job(connection, state))
                assert await client.job_retry(before.id) == before


async def test_move(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    with cases() as case:
        for state in ("available", "pending", "retryable", "scheduled"):
            with case(state):
                job_id = await job(connection, state)
                found = await client.job_move(job_id, queue="other", priority=4)
                assert (found.state, found.queue, found.priority) == (state, "other", 4)
                assert await client.job_move(job_id, queue="other") == found
                found = await client.job_move_tx(other, job_id, priority=2)
                assert (found.queue, found.priority) == ("other", 2)
                stored = await client.job_get(job_id)
                assert stored.priority == 4, "not before the transaction commits"


async def test_jobs_that_cannot_be_moved_and_places_that_are_none(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection)
    with pytest.raises(JobRunning, match="only jobs that wait can be moved"):
        await client.job_move(await job(connection, "running"), queue="other")
    with pytest.raises(BadRequest, match="only jobs that wait can be moved"):
        await client.job_move(await job(connection, "completed"), queue="other")
    with pytest.raises(NotFound):
        await client.job_move(12345, queue="other")
    for queue_name, priority in ((None, None), ("No name", None), (None, 5), ("fine", 0)):
        with pytest.raises(BadRequest):
            await client.job_move(job_id, queue=queue_name, priority=priority)
    assert (await client.job_get(job_id)).queue == "default"


async def test_a_retry_may_not_make_a_second_active_twin(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    await job(connection, "available", **UNIQUE)
    job_id = await job(connection, "discarded", **UNIQUE)
    with pytest.raises(UniqueConflict):
        await client.job_retry(job_id)
    assert await states(connection, job_id) == ["discarded"]


async def test_delete(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    with cases() as case:
        for state in set(JobState) - {JobState.RUNNING}:
            with case(state):
                before = await client.job_get(await job(connection, state.value))
                assert await client.job_delete(before.id) == before
                assert await states(connection, before.id) == [None]
    job_id = await job(connection, "running")
    for deleting in (client.job_delete(job_id), client.job_delete_tx(other, job_id)):
        with pytest.raises(JobRunning):
            await deleting
    assert await states(connection, job_id) == ["running"]


async def test_a_locked_job_raises_lock_timeout(
    database_url: str, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, "scheduled")
    driver = connect(database_url, lock_timeout=timedelta(milliseconds=50))
    await other.execute("select from river_job where id = %s for update", [job_id])
    for verb in ("cancel", "retry", "delete"):
        with pytest.raises(LockTimeout):
            await getattr(Client(driver), f"job_{verb}")(job_id)
    await driver.close()


async def test_a_change_is_part_of_the_callers_transaction(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    with cases() as case:
        for verb in ("cancel", "retry", "delete", "update"):
            with case(verb):
                job_id = await job(connection, "scheduled")
                before = await row(connection, job_id)
                settings = {"output": 1} if verb == "update" else {}
                found = await getattr(client, f"job_{verb}_tx")(other, job_id, **settings)
                assert found.id == job_id
                assert await row(connection, job_id) == before
                await other.rollback()
                assert await row(connection, job_id) == before
                await getattr(client, f"job_{verb}_tx")(other, job_id, **settings)
                await other.commit()
                assert await row(connection, job_id) != before


async def test_reading_in_a_transaction_sees_what_it_wrote(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, "scheduled")
    await queue(connection, "q")
    await client.job_cancel_tx(other, job_id)
    await client.queue_pause_tx(other, "q")
    assert (await client.job_get_tx(other, job_id)).state is JobState.CANCELLED
    assert (await client.job_get(job_id)).state is JobState.SCHEDULED
    (listed,) = (await client.job_list_tx(other, JobListParams(states=["cancelled"]))).jobs
    assert listed.id == job_id
    assert (await client.queue_get_tx(other, "q")).paused_at is not None
    assert (await client.queue_get("q")).paused_at is None
    assert [each.paused_at is None for each in await client.queue_list_tx(other)] == [False]


async def test_the_output_of_any_job_can_be_set(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, "completed", metadata={"output": "old", "kept": 1})
    found = await client.job_update(job_id, output={"rows": [1, 2], "at": T0})
    assert json.loads(found.metadata) == {
        "output": {"rows": [1, 2], "at": "2026-01-01T00:00:00Z"},
        "kept": 1,
    }
    assert json.loads((await client.job_update(job_id, output=None)).metadata)["output"] is None
    before = await client.job_get(job_id)
    assert await client.job_update(job_id) == before


async def test_an_output_has_to_be_json_of_up_to_32_mib(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, "completed")
    with pytest.raises(ValueError, match="at most 33,554,432"):
        await client.job_update(job_id, output="x" * (32 * 1024 * 1024))
    with pytest.raises(ValueError, match="cannot be stored as JSON"):
        await client.job_update(job_id, output=object())
    assert (await client.job_get(job_id)).metadata == "{}"


async def test_a_job_at_work_may_store_early_what_it_has_recorded(play: Playground) -> None:
    seen: list[str] = []

    async def work(job: Job[Task]) -> None:
        client = play.client
        seen.append((await client.job_update(job.id)).metadata)
        record_output("half")
        seen.append((await client.job_update(job.id)).metadata)
        seen.append((await client.job_update(job.id, output="said")).metadata)
        seen.append((await client.job_update(job.id)).metadata)

    await play.work(work)
    outputs = [json.loads(metadata).get("output") for metadata in seen]
    assert outputs == [None, "half", "said", "half"]


async def test_lists_are_filtered(client: Client, connection: AsyncConnection[Any]) -> None:
    first = await job(connection, "available", kind="mail", queue="q1", tags=["a", "b"], priority=2)
    second = await job(
        connection, "completed", kind="mail", queue="q2", tags=["b"], metadata={"c": {"d": 1}}
    )
    third = await job(connection, "running", kind="report", queue="q1")

    async def ids(**filters: Any) -> list[int]:
        return [found.id for found in (await client.job_list(JobListParams(**filters))).jobs]

    assert [found.id for found in (await client.job_list()).jobs] == [first, second, third]
    assert await ids(descending=True) == [third, second, first]
    assert await ids(first=2) == [first, second]
    assert await ids(ids=[third, first, 999]) == [first, third]
    assert await ids(kinds=["mail"]) == [first, second]
    assert await ids(queues=["q1"]) == [first, third]
    assert await ids(priorities=[2]) == [first]
    assert await ids(states=["completed", JobState.RUNNING]) == [second, third]
    assert await ids(tags_all=["a", "b"]) == [first]
    assert await ids(tags_any=["a", "b"]) == [first, second]
    assert await ids(metadata={"c": {"d": 1}}) == [second]
    assert await ids(kinds=["mail"], queues=["q1"]) == [first]
    assert await ids(kinds=[]) == []


async def test_pages_follow_one_another_without_gaps(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    for number in range(24):
        state = list(JobState)[number % 8]
        # Several jobs at the same time, and running ones without a start.
        at = T0 + timedelta(hours=number // 9)
        await job(
            connection,
            state.value,
            scheduled_at=at,
            finalized_at=at if state in ("cancelled", "completed", "discarded") else None,
            attempted_at=None if number % 3 else at,
        )
    orders: list[tuple[str, list[str] | None]] = [
        ("id", None), ("scheduled_at", None), ("finalized_at", None), ("time", None),
        ("time", ["retryable", "completed"]), ("time", ["running", "available", "pending"]),
        ("time", ["completed", "cancelled"]), ("time", ["completed", "running", "available"]),
    ]  # fmt: skip
    with cases() as case:
        for (order, wanted), descending in product(orders, (False, True)):
            with case((order, wanted, descending)):
                await _read_pages(client, order_by=order, states=wanted, descending=descending)


async def _read_pages(client: Client, **params: Any) -> None:
    whole = await client.job_list(JobListParams(**params, first=100))
    assert len(whole.jobs) >= 6
    pages: list[JobRow] = []
    rows: list[JobRow] = []
    cursor: Any = None
    for _ in range(30):
        page = await client.job_list(JobListParams(**params, first=2, after=cursor))
        last = rows[-1] if rows else None
        rows.extend((await client.job_list(JobListParams(**params, first=2, after=last))).jobs)
        if not page.jobs:
            assert page.last_cursor is None
            break
        pages.extend(page.jobs)
        cursor = str(page.last_cursor)
    assert pages == rows == list(whole.jobs)


async def test_many_jobs_are_deleted_by_filter(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    mails = [await job(connection, "completed", kind="mail") for _ in range(3)]
    running = await job(connection, "running", kind="mail")
    report = await job(connection, "completed", kind="report", queue="q")
    gone = await client.job_delete_many(JobDeleteManyParams(kinds=["mail"], first=2))
    assert [each.id for each in gone] == mails[:2]
    assert await client.job_delete_many(JobDeleteManyParams(kinds=["mail"], ids=[])) == []
    gone = await client.job_delete_many(JobDeleteManyParams(unsafe_all=True))
    assert [each.id for each in gone] == [mails[2], report]
    assert gone[1].queue == "q"
    assert await states(connection, running) == ["running"]


async def test_many_jobs_are_deleted_with_the_transaction(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    free, held = await job(connection, "completed"), await job(connection, "completed")
    async with connection.transaction():
        await connection.execute("select from river_job where id = %s for update", [held])
        gone = await client.job_delete_many_tx(other, JobDeleteManyParams(states=["completed"]))
    assert [each.id for each in gone] == [free]
    assert await states(connection, free) == ["completed"]
    await other.commit()
    assert await states(connection, free, held) == [None, "completed"]


async def test_queues(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    for name in ("b", "a"):
        await queue(connection, name, metadata={"of": name})
    assert [each.name for each in await client.queue_list()] == ["a", "b"]
    assert [each.name for each in await client.queue_list(first=1)] == ["a"]
    assert json.loads((await client.queue_get("b")).metadata.text) == {"of": "b"}
    with pytest.raises(ValueError, match="1 to 10,000"):
        await client.queue_list(first=0)
    found = await client.queue_update("b", metadata={"concurrency": {"global_limit": 5}})
    assert json.loads(found.metadata.text) == {"concurrency": {"global_limit": 5}}
    assert (await client.queue_update_tx(other, "b", metadata={})).metadata.text == "{}"
    assert (await client.queue_get("b")).metadata.text != "{}"
    await other.commit()
    assert await client.queue_pause("a") == ["a"]
    assert await client.queue_pause("*") == ["b"]
    assert await client.queue_resume_tx(other, "b") == ["b"]
    assert (await client.queue_get("b")).paused_at is not None
    await other.commit()
    assert (await client.queue_get("b")).paused_at is None
    assert await client.queue_resume("*") == ["a"]


async def test_a_queue_that_does_not_exist_is_not_found(
    client: Client, other: AsyncConnection[Any]
) -> None:
    for call in (
        client.queue_get("nowhere"),
        client.queue_get_tx(other, "nowhere"),
        client.queue_pause("nowhere"),
        client.queue_resume("nowhere"),
        client.queue_update("nowhere", metadata={}),
    ):
        with pytest.raises(NotFound, match="nowhere"):
            await call


async def test_changes_are_notified(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    await queue(connection, "q")
    running, waiting = await job(connection, "running"), await job(connection)
    metadata: dict[str, Any] = {"metadata": {"a": [1]}}
    control, cancel = "river_control", {"action": "cancel", "queue": "default", "job_id": running}
    resign = {"action": "request_resign", "leader_id": ""}
    changes: list[tuple[str, list[Any], dict[str, Any], str, dict[str, Any]]] = [
        ("job_cancel", [running], {}, control, cancel),
        ("job_move", [waiting], {"queue": "q"}, "river_insert", {"queue": "q"}),
        ("queue_pause", ["q"], {}, control, {"action": "pause", "queue": "q"}),
        ("queue_resume", ["q"], {}, control, {"action": "resume", "queue": "q"}),
        ("queue_update", ["q"], metadata, control,
         {"action": "metadata_changed", "queue": "q", **metadata}),
        ("request_resign", [], {}, "river_leadership", resign),
    ]  # fmt: skip
    for topic in (control, "river_insert", "river_leadership"):
        await connection.execute(f'listen "public.{topic}"'.encode())
    with cases() as case:
        for call, arguments, settings, topic, payload in changes:
            with case(call):
                await getattr(client, f"{call}_tx")(other, *arguments, **settings)
                assert [sent async for sent in connection.notifies(timeout=0.02)] == []
                await other.rollback()
                await getattr(client, call)(*arguments, **settings)
                (sent,) = [each async for each in connection.notifies(timeout=9, stop_after=1)]
                assert (sent.channel, json.loads(sent.payload)) == (f"public.{topic}", payload)


async def test_a_list_and_a_deletion_take_conditions(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    path = {"path": "$.to", "value": Jsonb("bob")}
    conditions: list[tuple[Any, list[str]]] = [
        (Where("args ->> 'to' = any(@names)", {"names": ["ann", "cy"]}), ["ann", "cy"]),
        (Where("jsonb_path_query_first(args, @path::jsonpath) = @value", path), ["bob"]),
        (Where("args @> @part", {"part": Jsonb({"to": "ann"})}), ["ann"]),
        (Where("priority > @least and kind = 'mail' -- or so", {"least": 1}), []),
        ([Where("args ->> 'to' <> @a", {"a": name}) for name in ("ann", "bob")], ["cy"]),
        (Where("args ->> 'to' = @name", {"name": "' or true --"}), []),
        (Where("kind = ':queue' or args ->> 'to' = 'bob'"), ["bob"]),
    ]
    await job(connection, kind="other", args={"to": "ann"}, queue="other")
    with cases() as case:
        for where, found in conditions:
            for name in ("ann", "bob", "cy"):
                await job(connection, kind="mail", args={"to": name})
            with case(where):
                listed = await client.job_list(JobListParams(kinds=["mail"], where=where))
                assert [row.args_dict["to"] for row in listed.jobs] == found
                few = JobDeleteManyParams(queues=["default"], where=where)
                assert [row.args_dict["to"] for row in await client.job_delete_many(few)] == found
            await client.job_delete_many(JobDeleteManyParams(kinds=["mail"]))


async def test_a_condition_is_a_filter_and_widens_none(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    running = await job(connection, "running")
    waiting = await job(connection)
    elsewhere = await job(connection, queue="other")
    either = Where("true or state = 'running'")
    deleted = await client.job_delete_many(JobDeleteManyParams(queues=["other"], where=either))
    assert [gone.id for gone in deleted] == [elsewhere]
    deleted = await client.job_delete_many(JobDeleteManyParams(where=either))
    assert [gone.id for gone in deleted] == [waiting]
    assert (await client.job_get(running)).id == running
    with pytest.raises(ValueError, match="unsafe_all"):
        JobDeleteManyParams(where=either, unsafe_all=True)
    with pytest.raises(TypeError, match="takes a Where"):
        JobListParams(where="true")  # type: ignore[arg-type]


async def test_a_condition_that_the_database_rejects_is_a_bad_request(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    await job(connection, args={"to": "ann"})
    with cases() as case:
        for sql, words in (
            ("no_such_column = 1", "no_such_column"),
            ("no_such_function(id)", "no_such_function"),
            ("kind = = 'a'", "syntax error"),
            ("(args ->> 'to')::int = 1", "invalid input syntax"),
            ("kind", "boolean"),
        ):
            with case(sql), pytest.raises(BadRequest, match=f"the condition: .*{words}"):
                await client.job_list(JobListParams(where=Where(sql)))
