"""Queue rows as a worker's client keeps them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from riverui.errors import BadRequest, NotFound
from riverui.storage.stores.indexes import IndexStore
from tests.storage.conftest import NOW, Way, hearing


async def _stored(way: Way, name: str) -> dict[str, Any]:
    rows = await way.make.rows("select * from river_queue")
    return next(dict(row) for row in rows if row["name"] == name)


async def test_upsert(way: Way) -> None:
    queue = await way.executor.queue_upsert("q", now=NOW)
    row = {"name": "q", "created_at": NOW, "updated_at": NOW, "metadata": {}, "paused_at": None}
    assert await _stored(way, "q") == row
    assert queue == await way.executor.queue_row_get("q")
    assert (queue.created_at, queue.updated_at, queue.metadata.text) == (NOW, NOW, "{}")
    later = NOW + timedelta(minutes=10)
    await way.executor.queue_upsert("q", now=later)
    assert await _stored(way, "q") == row | {"updated_at": later}
    by_the_database = await way.executor.queue_upsert("r")
    assert by_the_database.updated_at is not None
    assert abs(by_the_database.updated_at - datetime.now(UTC)) < timedelta(seconds=5)


async def test_upsert_keeps_what_others_have_set(way: Way) -> None:
    await way.make.queue("q", paused_at=NOW, metadata='{"a": 1}', created_at=NOW, updated_at=NOW)
    queue = await way.executor.queue_upsert("q")
    assert (queue.paused_at, queue.created_at, queue.metadata.text) == (NOW, NOW, '{"a": 1}')


async def test_upsert_many(way: Way) -> None:
    await way.make.queue("b", paused_at=NOW, metadata='{"a": 1}', created_at=NOW, updated_at=NOW)
    rows = {row.name: row for row in await way.executor.queue_upsert_many(["b", "a"])}
    assert set(rows) == {"a", "b"}
    for name, row in rows.items():
        assert row == await way.executor.queue_row_get(name)
        assert row.updated_at is not None
        assert row.updated_at > NOW
    assert (rows["b"].paused_at, rows["b"].created_at, rows["b"].metadata.text) == (
        NOW,
        NOW,
        '{"a": 1}',
    )
    assert list(await way.executor.queue_upsert_many([])) == []


async def test_get_many(way: Way) -> None:
    for name in ("a", "b", "c"):
        await way.make.queue(name)
    rows = await way.executor.queue_row_get_many(["c", "none", "a"])
    assert sorted(row.name for row in rows) == ["a", "c"]
    assert await way.executor.queue_row_get("a") in rows


async def test_queues_with_available_jobs(way: Way) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    for _ in range(3):
        await way.make.job(queue="many", priority=3)
    await way.make.job(queue="unasked")
    await way.make.job(queue="later", scheduled_at=later)
    await way.make.job("running", queue="running")
    await way.make.job("scheduled", queue="scheduled", scheduled_at=NOW)
    names = ["many", "none", "later", "running", "scheduled"]
    assert set(await way.executor.queue_with_available_list(names)) == {"many"}
    assert not await way.executor.queue_with_available_list([])


async def test_list(way: Way) -> None:
    for name in ("b", "a", "d", "c"):
        await way.make.queue(name)
    assert [row.name for row in await way.executor.queue_row_list()] == ["a", "b", "c", "d"]
    assert [row.name for row in await way.executor.queue_row_list(limit=2)] == ["a", "b"]
    rows = await way.executor.queue_row_list(after="b", limit=1)
    assert list(rows) == [await way.executor.queue_row_get("c")]


async def test_update(way: Way) -> None:
    await way.make.queue("q", updated_at=NOW, metadata='{"old": 1}')
    async with hearing(way.driver, "river_control") as heard:
        queue = await way.executor.queue_update("q", metadata='{"a": {"b": [1, 2]}}')
    assert queue == await way.executor.queue_row_get("q")
    stored = await _stored(way, "q")
    assert stored["metadata"] == {"a": {"b": [1, 2]}}
    assert stored["updated_at"] > NOW
    assert [(topic, json.loads(payload)) for topic, payload in heard] == [
        (
            "river_control",
            {"action": "metadata_changed", "metadata": {"a": {"b": [1, 2]}}, "queue": "q"},
        )
    ]


async def test_update_of_no_queue(way: Way) -> None:
    async with hearing(way.driver, "river_control") as heard:
        with pytest.raises(NotFound):
            await way.executor.queue_update("q", metadata="{}")
    assert heard == []


async def test_update_with_more_than_a_notification_holds(way: Way) -> None:
    await way.make.queue("q", metadata='{"old": 1}')
    with pytest.raises(BadRequest):
        await way.executor.queue_update("q", metadata=json.dumps({"a": "x" * 9000}))
    assert (await _stored(way, "q"))["metadata"] == {"old": 1}


async def test_delete_expired(way: Way) -> None:
    for n, name in enumerate(("d", "c", "b", "a")):
        await way.make.queue(name, updated_at=NOW + timedelta(hours=n))
    horizon = NOW + timedelta(hours=2, microseconds=1)
    assert list(await way.executor.queue_delete_expired(updated_before=NOW, limit=10)) == []
    assert list(await way.executor.queue_delete_expired(updated_before=horizon, limit=2)) == [
        "b",
        "c",
    ]
    assert list(await way.executor.queue_delete_expired(updated_before=horizon, limit=2)) == ["d"]
    assert [row.name for row in await way.executor.queue_row_list()] == ["a"]


async def test_notify_many(way: Way) -> None:
    payloads = ["{}", 'a "quote", a \\ and {braces}', "ü 🦆", ""]
    async with hearing(way.driver, "river_control", "river_insert") as heard:
        await way.executor.notify_many("river_control", payloads)
        await way.executor.notify_many("river_insert", [])
    assert heard == [("river_control", payload) for payload in payloads]


async def test_indexes(way: Way) -> None:
    names = await IndexStore(way.executor).index_list()
    assert {
        "river_job_args_index",
        "river_job_kind",
        "river_job_metadata_index",
        "river_job_pkey",
        "river_job_prioritized_fetching_index",
        "river_job_state_and_finalized_at_index",
        "river_job_unique_idx",
        "river_leader_pkey",
        "river_queue_pkey",
    } <= set(names)
    await way.make.connection.execute('create index "odd ""name"" ccnew1" on river_job (id)')
    assert 'odd "name" ccnew1' in await IndexStore(way.executor).index_list()
    await IndexStore(way.executor).index_reindex("river_job_kind")
    await IndexStore(way.executor).index_reindex('odd "name" ccnew1')
    for _ in range(2):
        await IndexStore(way.executor).index_drop('odd "name" ccnew1')
    assert await IndexStore(way.executor).index_list() == names
