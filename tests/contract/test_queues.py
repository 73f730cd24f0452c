"""Queues: their rows, what waits in them, and what is done to them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from riverui.domain.jobs import JobState
from riverui.domain.queues import NO_REASON, Reason
from riverui.errors import NotFound
from riverui.storage.interface import LISTENING, Driver
from riverui.storage.interface.params import Count, CountKind
from tests.contract.seeds import NOW, ended, insert, job, running


async def test_a_row_is_made_once_and_then_reported(driver: Driver) -> None:
    later = NOW + timedelta(minutes=5)
    async with driver.autocommit() as executor:
        assert await executor.queues.row_get("mail") is None
        made = await executor.queues.upsert("mail", now=NOW)
        again = await executor.queues.upsert("mail", now=later)
        assert await executor.queues.row_get("mail") == again
    assert (made.name, made.created_at, made.updated_at) == ("mail", NOW, NOW)
    assert (made.paused_at, json.loads(made.metadata.text)) == (None, {})
    assert (again.created_at, again.updated_at) == (NOW, later)


async def test_several_at_once(driver: Driver) -> None:
    async with driver.autocommit() as executor:
        rows = await executor.queues.upsert_many(["b", "a", "c"])
        assert sorted(row.name for row in rows) == ["a", "b", "c"]
        found = await executor.queues.row_get_many(["a", "c", "other"])
        assert sorted(row.name for row in found) == ["a", "c"]
        assert [row.name for row in await executor.queues.row_list()] == ["a", "b", "c"]
        assert [row.name for row in await executor.queues.row_list(after="a", limit=1)] == ["b"]


async def test_queues_with_something_to_fetch(driver: Driver) -> None:
    await insert(driver, job(queue="full"), job(queue="later", state=JobState.SCHEDULED))
    async with driver.autocommit() as executor:
        found = await executor.queues.with_available_list(["full", "later", "empty"])
    assert sorted(found) == ["full"]


async def test_queues_that_no_client_reports_are_removed(driver: Driver) -> None:
    async with driver.autocommit() as executor:
        for days, name in enumerate(["today", "yesterday", "before"]):
            await executor.queues.upsert(name, now=NOW - timedelta(days=days))
        assert list(await executor.queues.delete_expired(updated_before=NOW, limit=1)) == ["before"]
        assert list(await executor.queues.delete_expired(updated_before=NOW, limit=9)) == [
            "yesterday"
        ]
        assert [row.name for row in await executor.queues.row_list()] == ["today"]


async def test_pausing_and_resuming_tell_what_changed(driver: Driver) -> None:
    async with driver.transaction() as transaction:
        assert list(await transaction.queues.pause("*")) == []
        for name in ("a", "b"):
            await transaction.queues.upsert(name, now=NOW)
        assert list(await transaction.queues.pause("a")) == ["a"]
        assert list(await transaction.queues.pause("a")) == []
        assert list(await transaction.queues.pause("*")) == ["b"]
        assert list(await transaction.queues.pause("*")) == []
        row = await transaction.queues.row_get("a")
        assert row is not None
        assert row.paused_at is not None
        assert row.updated_at == row.paused_at
        assert row.created_at == NOW
        assert list(await transaction.queues.resume("b")) == ["b"]
        assert list(await transaction.queues.resume("*")) == ["a"]
        assert list(await transaction.queues.resume("a")) == []
    for act in ("pause", "resume"):
        with pytest.raises(NotFound):
            async with driver.transaction() as transaction:
                await getattr(transaction.queues, act)("absent")


async def test_a_pause_keeps_who_and_why(driver: Driver) -> None:
    async with driver.transaction() as transaction:
        queues = transaction.queues
        await queues.upsert("q", now=NOW)
        await queues.set_metadata_key("q", "mine", "1")
        await queues.pause("q", Reason(by="ops", note="vendor down"))
        row = await queues.row_get("q")
        assert row is not None
        assert (row.reason.by, row.reason.note) == ("ops", "vendor down")
        await queues.resume("q", "dev")
        row = await queues.row_get("q")
        assert row is not None
        assert (row.reason, json.loads(row.metadata.text)["mine"]) == (NO_REASON, 1)
        assert row.last_pause is not None
        assert (row.last_pause.resumed_by, row.last_pause.note) == ("dev", "vendor down")
        assert row.last_pause.resumed_at is not None
    async with driver.transaction() as transaction:
        await transaction.queues.pause("q")
        row = await transaction.queues.row_get("q")
        assert row is not None
        assert row.reason == NO_REASON, "the note is an older pause's"
        for odd in ("7", "null", '{"at": "never"}'):
            row = await transaction.queues.set_metadata_key("q", "riverui:pause", odd)
            assert row.last_pause is None
            await transaction.queues.resume("q", "dev")


async def test_metadata_limits_and_touch(driver: Driver) -> None:
    async with driver.transaction() as transaction:
        await transaction.queues.upsert("q", now=NOW)
        row = await transaction.queues.update("q", metadata='{"a": 1}')
        assert json.loads(row.metadata.text) == {"a": 1}
        row = await transaction.queues.set_metadata_key("q", "concurrency", '{"global_limit": 2}')
        assert json.loads(row.metadata.text) == {"a": 1, "concurrency": {"global_limit": 2}}
        row = await transaction.queues.set_metadata_key("q", "riverui:rate_limit", '{"limit": 5}')
        assert json.loads(row.metadata.text)["riverui:rate_limit"] == {"limit": 5}
        row = await transaction.queues.set_metadata_key("q", "riverui:rate_limit", None)
        assert json.loads(row.metadata.text) == {"a": 1, "concurrency": {"global_limit": 2}}
        row = await transaction.queues.set_metadata_key("q", "concurrency", None)
        assert json.loads(row.metadata.text) == {"a": 1}
        touched = await transaction.queues.touch("q")
        assert touched.updated_at is not None
        assert touched.updated_at >= NOW
    with pytest.raises(NotFound):
        async with driver.transaction() as transaction:
            await transaction.queues.touch("absent")


async def test_counts_of_states_go_as_far_as_asked(driver: Driver) -> None:
    await insert(driver, *[job(queue="deep") for _ in range(3)], job(queue="other"))
    deep, empty = ("deep", JobState.AVAILABLE), ("deep", JobState.SCHEDULED)
    async with driver.autocommit() as executor:
        assert await executor.queues.state_count([empty, deep], cap=9) == {deep: 3, empty: 0}
        assert await executor.queues.state_count([deep], cap=2) == {deep: 2}


async def test_the_list_unites_served_and_used_queues(driver: Driver) -> None:
    await insert(
        driver,
        job(queue="orphan", state=JobState.SCHEDULED),
        job("post", queue="served"),
        job("post", queue="served", scheduled_at=NOW - timedelta(hours=1)),
    )
    await running(driver, job(queue="served", priority=1, scheduled_at=NOW - timedelta(days=1)))
    await ended(driver, JobState.RETRYABLE, job(queue="orphan"))
    await ended(driver, JobState.COMPLETED, job(queue="Done"))
    async with driver.autocommit() as executor:
        await executor.queues.upsert("served")
    async with driver.reading() as executor:
        orphan, served = await executor.queues.list(cap=10)
        capped = await executor.queues.get("served", cap=1)
        assert await executor.queues.get("other", cap=1) is None
        assert [row.queue.name for row in await executor.queues.list(match="ERV", cap=1)] == [
            "served"
        ]
        assert list(await executor.queues.name_list()) == ["Done", "orphan", "served"]
        assert list(await executor.queues.name_list(match="O", limit=1)) == ["Done"]
        assert list(await executor.queues.row_name_list()) == ["served"]
        assert list(await executor.queues.row_name_list(exclude=["served"])) == []
        (counted,) = await executor.queues.count_list(cap=10, limit=10)
        assert await executor.queues.count_get("served", cap=10) == counted
        assert await executor.queues.count_get("orphan", cap=10) is None
        kinds = await executor.queues.kind_count("served", cap=10)
        few = dict(await executor.queues.kind_count("served", cap=1))
    assert few["post"][JobState.AVAILABLE] == Count(value=1, kind=CountKind.AT_LEAST)
    assert (orphan.queue.name, orphan.queue.served, orphan.queue.updated_at) == (
        "orphan",
        False,
        None,
    )
    assert (orphan.available, orphan.scheduled, orphan.retryable) == (0, 1, 1)
    assert orphan.oldest_waiting_at is None
    assert (served.queue.served, served.available, served.running) == (True, 2, 1)
    assert served.oldest_waiting_at == NOW - timedelta(hours=1)
    assert capped is not None
    assert capped.available == 1
    assert (counted.available, counted.running) == (2, 1)
    found = {kind: {state: count.value for state, count in by.items()} for kind, by in kinds}
    assert found["post"][JobState.AVAILABLE] == 2
    assert found["mail"][JobState.RUNNING] == 1


async def test_the_newest_failures_of_a_queue(driver: Driver) -> None:
    (first,) = await ended(driver, JobState.DISCARDED, job(queue="q"))
    await ended(driver, JobState.COMPLETED, job(queue="q"))
    (second,) = await ended(driver, JobState.RETRYABLE, job(queue="q"))
    async with driver.reading() as executor:
        rows = await executor.queues.failure_list("q")
    assert {row.id for row in rows} == {first, second}
    assert {row.last_error for row in rows} == {"boom"}


async def test_notifications_are_received_by_who_listens(driver: Driver) -> None:
    listener = await LISTENING.on(driver).listener()
    await listener.listen("river_control")
    async with driver.autocommit() as executor:
        await executor.notify_many("river_control", [])
        await executor.notify_many("river_control", ["{}"])
    async for received in listener.notifications():
        assert received == ("river_control", "{}")
        break
    await listener.close()
