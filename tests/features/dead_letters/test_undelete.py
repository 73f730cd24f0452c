"""Deleting jobs where dead letters are kept: what is deleted can be put back as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import httpx2
from psycopg import AsyncConnection

from riverui.engine.feature_list import plain_pilot
from riverui.features.dead_letters import verbs as dead_letters
from riverui.features.sequences.store import SequenceStore
from riverui.storage.interface import Driver
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from tests.factory import attempt_error, job
from tests.web.html import parse

Connection = AsyncConnection[dict[str, Any]]
Htmx = Callable[..., dict[str, str]]
SAME = {"Sec-Fetch-Site": "same-origin"}


async def rows(connection: Connection, table: str) -> dict[int, Mapping[str, Any]]:
    found = await connection.execute(f"select * from {table}".encode())
    return {row["id"]: row for row in await found.fetchall()}


async def delete(client: httpx2.AsyncClient, htmx: Htmx, *ids: int, **more: str) -> httpx2.Response:
    fields = {"ids": [str(each) for each in ids], "next": "/jobs", "confirmed": "1", **more}
    answer = await client.post(
        "/jobs/delete", data=fields, headers=htmx("ask-problem", "/jobs") | SAME
    )
    assert answer.status_code == 200, answer.text
    return answer


def undo_fields(text: str) -> dict[str, str]:
    form = parse(text).one("form", class_="notice-undo")
    assert form.attributes["action"] == "/jobs/undelete"
    return {
        str(each.attributes["name"]): str(each.attributes["value"])
        for each in form.all("input", type="hidden")
    }


async def test_what_is_deleted_is_kept_and_put_back_as_it_was(
    client: httpx2.AsyncClient, connection: Connection, own_tables: None, htmx: Htmx
) -> None:
    ids = [
        await job(connection, state, kind="mail", queue="q", errors=[attempt_error(1, "boom")])
        for state in ("completed", "available", "scheduled", "retryable", "discarded", "pending")
    ]
    running = await job(connection, "running")
    before = await rows(connection, "river_job")
    answer = await delete(client, htmx, *ids, running)
    assert "6 jobs deleted" in answer.text
    assert "1 skipped, still running" in answer.text
    assert set(await rows(connection, "river_job")) == {running}
    kept = await rows(connection, "riverui_dead_job")
    assert {row["reason"] for row in kept.values()} == {"deleted"}
    assert sorted(kept) == ids
    back = await client.post(
        "/jobs/undelete",
        data=undo_fields(answer.text),
        headers=htmx("notices", "/jobs") | SAME,
    )
    assert "6 jobs put back" in back.text
    assert await rows(connection, "river_job") == before
    assert await rows(connection, "riverui_dead_job") == {}
    again = await client.post("/jobs/undelete", data=undo_fields(answer.text))
    assert again.status_code == 303
    assert "Nothing was put back" in (await client.get("/jobs")).text


async def test_without_javascript_the_notice_comes_with_the_next_page(
    client: httpx2.AsyncClient, connection: Connection, own_tables: None
) -> None:
    found = await job(connection, "completed")
    both = [str(found), str(await job(connection))]
    asked = await client.post("/jobs/delete", data={"ids": both})
    assert "to the dead letters and can be put back" in asked.text
    assert "cannot be undone" not in asked.text
    # Ended jobs can be put back whatever they belong to, and are deleted without a question.
    fields = {"ids": str(found), "next": f"/jobs/{found}"}
    answer = await client.post("/jobs/delete", data=fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs")
    page = await client.get("/jobs")
    back = await client.post("/jobs/undelete", data=undo_fields(page.text))
    assert back.headers["location"] == f"/jobs/{found}"
    assert found in await rows(connection, "river_job")
    assert (await client.get(f"/jobs/{found}")).status_code == 200


async def test_without_the_table_a_job_is_deleted_for_good(
    client: httpx2.AsyncClient, connection: Connection, htmx: Htmx
) -> None:
    found = await job(connection, "completed")
    asked = await client.post("/jobs/delete", data={"ids": str(found)})
    assert "cannot be undone" in asked.text
    answer = await delete(client, htmx, found)
    assert "notice-undo" not in answer.text
    assert await rows(connection, "river_job") == {}
    answer = await client.post("/jobs/undelete", data={"deleted": "2026-11-22T00:00:00+00:00"})
    assert answer.status_code == 400
    assert "the tables of riverui" in answer.text


async def test_requests_that_undo_nothing(
    client: httpx2.AsyncClient, reader: httpx2.AsyncClient, own_tables: None
) -> None:
    for deleted in ("", "yesterday", "2026-11-22"):
        assert (await client.post("/jobs/undelete", data={"deleted": deleted})).status_code == 400
    given = {"deleted": "2026-11-22T00:00:00+00:00"}
    assert (await reader.post("/jobs/undelete", data=given)).status_code == 403


async def test_the_page_shows_who_deleted_it(
    client: httpx2.AsyncClient, driver: Driver, connection: Connection, own_tables: None
) -> None:
    found = await job(connection, "completed", metadata={"trace": "a1"})
    await dead_letters.delete_jobs(driver, [found], user="ann <b>", pilot=plain_pilot())
    for path in ("/dead-letters", f"/dead-letters/{found}"):
        page = parse((await client.get(path)).text)
        assert "by ann <b>" in page.text
    listed = (await client.get("/api/dead-letters")).json()["data"]
    assert [each["deleted_by"] for each in listed] == ["ann <b>"]
    assert (await client.get(f"/api/dead-letters/{found}")).json()["deleted_by"] == "ann <b>"
    await dead_letters.retry(driver, [found], pilot=plain_pilot())
    assert (await rows(connection, "river_job"))[found]["metadata"] == {"trace": "a1"}


async def delete_as(driver: Driver, ids: Sequence[int], user: str = "") -> datetime:
    """Delete jobs to the dead letters, and return when."""
    deleted = await dead_letters.delete_jobs(driver, ids, user=user, pilot=plain_pilot())
    assert deleted.died_at is not None
    return deleted.died_at


async def undo(driver: Driver, deleted_at: datetime, user: str = "") -> JobChanges:
    return await dead_letters.undo(driver, deleted_at, user=user, pilot=plain_pilot())


async def test_each_undoes_only_what_is_their_own(
    driver: Driver, connection: Connection, own_tables: None
) -> None:
    first, second = [await job(connection, "completed") for _ in range(2)]
    deleted_at = await delete_as(driver, [first], user="ann")
    await delete_as(driver, [second], user="bob")
    await connection.execute("update riverui_dead_job set died_at = %s", [deleted_at])
    assert (await undo(driver, deleted_at, user="eve")).changed == ()
    assert (await undo(driver, deleted_at, user="ann")).changed == (first,)
    assert list(await rows(connection, "riverui_dead_job")) == [second]


async def test_whose_unique_key_is_taken_stays_a_dead_letter(
    driver: Driver, connection: Connection, own_tables: None
) -> None:
    unique: dict[str, Any] = {"unique_key": b"\x05", "unique_states": "10000001"}
    blocked = await job(connection, "available", **unique)
    free = await job(connection, "available")
    deleted_at = await delete_as(driver, [blocked, free])
    await job(connection, "available", **unique)
    changes = await undo(driver, deleted_at)
    assert changes.changed == (free,)
    assert changes.skipped == ((blocked, SkipReason.UNIQUE_CONFLICT),)
    assert list(await rows(connection, "riverui_dead_job")) == [blocked]


async def test_metadata_that_are_no_object(
    driver: Driver, connection: Connection, own_tables: None
) -> None:
    ids = [await job(connection, "completed") for _ in range(3)]
    for found, metadata in zip(ids, ("[1]", "7", "null"), strict=True):
        await connection.execute(
            "update river_job set metadata = %s::text::jsonb where id = %s", [metadata, found]
        )
    before = await rows(connection, "river_job")
    deleted_at = await delete_as(driver, ids, user="ann")
    await undo(driver, deleted_at, user="ann")
    assert await rows(connection, "river_job") == before


async def test_a_number_that_a_dead_letter_has_already_is_not_deleted(
    driver: Driver, connection: Connection, own_tables: None
) -> None:
    found = await job(connection, "completed")
    await delete_as(driver, [found])
    await connection.execute(
        "insert into river_job (id, args, kind, max_attempts, state, finalized_at)"
        " values (%s, '{}', 'other', 1, 'completed', now())",
        [found],
    )
    deleted = await dead_letters.delete_jobs(driver, [found], user="", pilot=plain_pilot())
    assert deleted.changes.skipped == ((found, SkipReason.KEPT),)
    assert found in await rows(connection, "river_job")


async def test_a_job_of_a_sequence_gets_back_into_line(
    driver: Driver, connection: Connection, own_tables: None
) -> None:
    metadata = {"seq_key": "order", "riverui:sequence": {}}
    ids = [await job(connection, state, metadata=metadata) for state in ("available", "pending")]
    async with driver.transaction() as executor:
        sequences = SequenceStore(executor)
        await sequences.sequence_claim(["order"])
        await sequences.sequence_put([("order", ids[0])], [("order", ids[1])])
    deleted_at = await delete_as(driver, ids[:1])
    states = {key: row["state"] for key, row in (await rows(connection, "river_job")).items()}
    assert states == {ids[1]: "available"}
    changes = await undo(driver, deleted_at)
    assert changes.changed == (ids[0],)
    states = {key: row["state"] for key, row in (await rows(connection, "river_job")).items()}
    # Never two at once.
    assert states == {ids[0]: "pending", ids[1]: "available"}


async def test_a_waiting_task_of_a_workflow_stays_a_dead_letter(
    driver: Driver, connection: Connection, own_tables: None
) -> None:
    waiting = await job(connection, "available", metadata={"workflow_id": "w", "task": "a"})
    ended = await job(connection, "completed", metadata={"workflow_id": "w", "task": "b"})
    deleted_at = await delete_as(driver, [waiting, ended])
    changes = await undo(driver, deleted_at)
    assert changes.changed == (ended,)
    assert changes.skipped == ((waiting, SkipReason.WORKFLOW),)


async def test_workers_are_notified_of_restored_jobs(
    driver: Driver, connection: Connection, own_tables: None
) -> None:
    found = await job(connection, "available", queue="mail")
    deleted_at = await delete_as(driver, [found])
    schema = await (await connection.execute("select current_schema() as name")).fetchone()
    assert schema is not None
    await connection.execute(f'listen "{schema["name"]}.river_insert"'.encode())
    await undo(driver, deleted_at)
    payloads = [each.payload async for each in connection.notifies(timeout=10, stop_after=1)]
    assert payloads == ['{"queue" : "mail"}']
