"""Looking after jobs and queues through a client: what River's client does, alone and in a
transaction.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
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
    for name in (
        "created_at",
        "scheduled_at",
        "attempted_at",
        "finalized_at",
        "max_attempts",
        "queue",
    ):
        assert getattr(found, name) == stored[name]


async def test_a_job_that_is_not_there_is_told(client: Client, other: AsyncConnection[Any]) -> None:
    async def failing(coroutine: Any) -> None:
        with pytest.raises(NotFound, match="Job not found: 12345"):
            await coroutine

    for verb in ("get", "cancel", "retry", "delete", "update"):
        await failing(getattr(client, f"job_{verb}")(12345))
        await failing(getattr(client, f"job_{verb}_tx")(other, 12345))
    await failing(client.job_update(12345, output=1))


@pytest.mark.parametrize("state", ["available", "pending", "retryable", "scheduled"])
async def test_a_waiting_job_is_cancelled(
    state: str, client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, state)
    found = await client.job_cancel(job_id)
    assert found.state is JobState.CANCELLED
    assert found.finalized_at is not None
    assert "cancel_attempted_at" in json.loads(found.metadata)


async def test_a_running_job_is_asked_to_stop(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, "running")
    found = await client.job_cancel(job_id)
    assert (found.state, found.finalized_at) == (JobState.RUNNING, None)
    assert "cancel_attempted_at" in json.loads(found.metadata)


@pytest.mark.parametrize("state", ["cancelled", "completed", "discarded"])
async def test_a_finished_job_stays_as_it_is(
    state: str, client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, state)
    before = await client.job_get(job_id)
    assert await client.job_cancel(job_id) == before


@pytest.mark.parametrize(
    "state", ["cancelled", "completed", "discarded", "pending", "retryable", "scheduled"]
)
async def test_a_job_is_made_available_again(
    state: str, client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, state, attempt=25, max_attempts=25)
    found = await client.job_retry(job_id)
    assert (found.state, found.finalized_at, found.max_attempts) == (JobState.AVAILABLE, None, 26)
    assert abs(found.scheduled_at - datetime.now(UTC)) < timedelta(seconds=10)


@pytest.mark.parametrize("state", ["available", "pending", "retryable", "scheduled"])
async def test_a_waiting_job_is_moved(
    state: str, client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, state)
    found = await client.job_move(job_id, queue="other", priority=4)
    assert (found.state, found.queue, found.priority) == (JobState(state), "other", 4)
    assert await client.job_move(job_id, queue="other") == found
    found = await client.job_move_tx(other, job_id, priority=2)
    assert (found.queue, found.priority) == ("other", 2)
    assert (await client.job_get(job_id)).priority == 4, "not before the transaction commits"


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


@pytest.mark.parametrize("state", ["running", "available"])
async def test_a_job_that_runs_or_waits_needs_no_retry(
    state: str, client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, state)
    before = await client.job_get(job_id)
    assert await client.job_retry(job_id) == before


async def test_a_retry_may_not_make_a_second_active_twin(
    client: Client, connection: AsyncConnection[Any]
) -> None:
    await job(connection, "available", **UNIQUE)
    job_id = await job(connection, "discarded", **UNIQUE)
    with pytest.raises(UniqueConflict):
        await client.job_retry(job_id)
    assert await states(connection, job_id) == ["discarded"]


@pytest.mark.parametrize(
    "state",
    ["available", "cancelled", "completed", "discarded", "pending", "retryable", "scheduled"],
)
async def test_a_job_is_deleted_and_given(
    state: str, client: Client, connection: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, state)
    before = await client.job_get(job_id)
    assert await client.job_delete(job_id) == before
    assert await states(connection, job_id) == [None]


async def test_a_running_job_is_not_deleted(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, "running")
    with pytest.raises(JobRunning):
        await client.job_delete(job_id)
    with pytest.raises(JobRunning):
        await client.job_delete_tx(other, job_id)
    assert await states(connection, job_id) == ["running"]


@pytest.mark.parametrize("verb", ["cancel", "retry", "delete"])
async def test_a_job_that_somebody_holds_for_too_long_is_told(
    verb: str, database_url: str, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    job_id = await job(connection, "scheduled")
    driver = connect(database_url, lock_timeout=timedelta(milliseconds=50))
    await other.execute("select from river_job where id = %s for update", [job_id])
    try:
        with pytest.raises(LockTimeout):
            await getattr(Client(driver), f"job_{verb}")(job_id)
    finally:
        await driver.close()


@pytest.mark.parametrize("verb", ["cancel", "retry", "delete", "update"])
async def test_what_a_program_rolls_back_has_not_happened(
    verb: str, client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
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


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("id", None),
        ("scheduled_at", None),
        ("finalized_at", None),
        ("time", None),
        ("time", ["retryable", "completed"]),
        ("time", ["running", "available", "pending"]),
        ("time", ["completed", "cancelled"]),
        ("time", ["completed", "running", "available"]),
    ],
)
async def test_pages_follow_one_another_without_gaps(
    order: str,
    wanted: list[str] | None,
    descending: bool,
    client: Client,
    connection: AsyncConnection[Any],
) -> None:
    for number in range(24):
        state = list(JobState)[number % 8]
        # Several jobs at the same time, and running ones that tell no start.
        at = T0 + timedelta(hours=number // 9)
        await job(
            connection,
            state.value,
            scheduled_at=at,
            finalized_at=at if state in ("cancelled", "completed", "discarded") else None,
            attempted_at=None if number % 3 else at,
        )
    params: dict[str, Any] = {"order_by": order, "states": wanted, "descending": descending}
    whole = await client.job_list(JobListParams(**params, first=100))
    assert len(whole.jobs) >= 6
    pages: list[JobRow] = []
    rows: list[JobRow] = []
    cursor: Any = None
    for _ in range(30):
        page = await client.job_list(JobListParams(**params, first=2, after=cursor))
        by_row = await client.job_list(
            JobListParams(**params, first=2, after=rows[-1] if rows else None)
        )
        if not page.jobs:
            assert page.last_cursor is None
            break
        pages.extend(page.jobs)
        rows.extend(by_row.jobs)
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


async def test_queues_are_given_by_name(client: Client, connection: AsyncConnection[Any]) -> None:
    for name in ("b", "a", "c"):
        await queue(connection, name, metadata={"of": name})
    assert [each.name for each in await client.queue_list()] == ["a", "b", "c"]
    assert [each.name for each in await client.queue_list(first=2)] == ["a", "b"]
    assert json.loads((await client.queue_get("b")).metadata.text) == {"of": "b"}
    with pytest.raises(ValueError, match="1 to 10,000"):
        await client.queue_list(first=0)


async def test_a_queue_that_is_not_there_is_told(
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


async def test_queues_are_paused_and_resumed(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    for name in ("a", "b"):
        await queue(connection, name)
    assert await client.queue_pause("a") == ["a"]
    assert await client.queue_pause("*") == ["b"]
    assert await client.queue_resume_tx(other, "b") == ["b"]
    assert (await client.queue_get("b")).paused_at is not None
    await other.commit()
    assert (await client.queue_get("b")).paused_at is None
    assert await client.queue_resume("*") == ["a"]


async def test_the_metadata_of_a_queue_is_replaced(
    client: Client, connection: AsyncConnection[Any], other: AsyncConnection[Any]
) -> None:
    await queue(connection, "q", metadata={"old": 1})
    found = await client.queue_update("q", metadata={"concurrency": {"global_limit": 5}})
    assert json.loads(found.metadata.text) == {"concurrency": {"global_limit": 5}}
    found = await client.queue_update_tx(other, "q", metadata={})
    assert found.metadata.text == "{}"
    assert (await client.queue_get("q")).metadata.text != "{}"


@pytest.mark.parametrize(
    ("call", "topic", "payload"),
    [
        ("job_cancel", "river_control", {"action": "cancel", "queue": "default"}),
        ("job_move", "river_insert", {"queue": "q"}),
        ("queue_pause", "river_control", {"action": "pause", "queue": "q"}),
        ("queue_resume", "river_control", {"action": "resume", "queue": "q"}),
        (
            "queue_update",
            "river_control",
            {"action": "metadata_changed", "queue": "q", "metadata": {"a": [1]}},
        ),
        ("request_resign", "river_leadership", {"action": "request_resign", "leader_id": ""}),
    ],
)
@pytest.mark.parametrize("in_transaction", [False, True])
async def test_clients_are_told(
    call: str,
    topic: str,
    payload: dict[str, Any],
    in_transaction: bool,
    client: Client,
    connection: AsyncConnection[Any],
    other: AsyncConnection[Any],
) -> None:
    await queue(connection, "q")
    arguments: list[Any] = []
    settings: dict[str, Any] = {}
    if call == "job_cancel":
        job_id = await job(connection, "running")
        arguments, payload = [job_id], {**payload, "job_id": job_id}
    elif call == "job_move":
        arguments, settings = [await job(connection)], {"queue": "q"}
    elif call.startswith("queue"):
        arguments = ["q"]
    if call == "queue_update":
        settings = {"metadata": {"a": [1]}}
    await connection.execute(f'listen "public.{topic}"'.encode())
    if in_transaction:
        await getattr(client, f"{call}_tx")(other, *arguments, **settings)
        assert [told async for told in connection.notifies(timeout=0.05)] == []
        await other.commit()
    else:
        await getattr(client, call)(*arguments, **settings)
    (told,) = [message async for message in connection.notifies(timeout=10, stop_after=1)]
    assert json.loads(told.payload) == payload


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (Where("args ->> 'to' = any(@names)", {"names": ["ann", "cy"]}), ["ann", "cy"]),
        (
            Where(
                "jsonb_path_query_first(args, @path::jsonpath) = @value",
                {"path": "$.to", "value": Jsonb("bob")},
            ),
            ["bob"],
        ),
        (Where("args @> @part", {"part": Jsonb({"to": "ann"})}), ["ann"]),
        (Where("priority > @least and kind = 'mail' -- or so", {"least": 1}), []),
        (
            [
                Where("args ->> 'to' <> @a", {"a": "ann"}),
                Where("args ->> 'to' <> @a", {"a": "bob"}),
            ],
            ["cy"],
        ),
        (Where("args ->> 'to' = @name", {"name": "' or true --"}), []),
        (Where("kind = ':queue' or args ->> 'to' = 'bob'"), ["bob"]),
    ],
)
async def test_conditions_of_ones_own(
    client: Client, connection: AsyncConnection[Any], condition: Any, found: list[str]
) -> None:
    for name in ("ann", "bob", "cy"):
        await job(connection, kind="mail", args={"to": name})
    await job(connection, kind="other", args={"to": "ann"}, queue="other")
    listed = await client.job_list(JobListParams(kinds=["mail"], where=condition))
    assert [json.loads(row.args)["to"] for row in listed.jobs] == found
    deleted = await client.job_delete_many(JobDeleteManyParams(queues=["default"], where=condition))
    assert [json.loads(row.args)["to"] for row in deleted] == found


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


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("no_such_column = 1", "no_such_column"),
        ("no_such_function(id)", "no_such_function"),
        ("kind = = 'a'", "syntax error"),
        ("(args ->> 'to')::int = 1", "invalid input syntax"),
        ("kind", "boolean"),
    ],
)
async def test_the_database_s_words_for_conditions_that_it_refuses(
    client: Client, connection: AsyncConnection[Any], sql: str, words: str
) -> None:
    await job(connection, args={"to": "ann"})
    with pytest.raises(BadRequest, match=f"rejects the condition: .*{words}"):
        await client.job_list(JobListParams(where=Where(sql)))
