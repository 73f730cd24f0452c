"""Queue rows as a worker's client keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from riverui.errors import BadRequest, NotFound
from riverui.storage.stores.indexes import IndexStore
from tests.storage.conftest import NOW, Way, hearing


async def _stored(way: Way, name: str) -> dict[str, Any]:
    rows = await way.make.rows("select * from river_queue")
    return next(dict(row) for row in rows if row["name"] == name)


async def test_upsert_keeps_what_others_have_set(way: Way) -> None:
    await way.make.queue("q", paused_at=NOW, metadata='{"a": 1}', created_at=NOW, updated_at=NOW)
    (same,) = await way.executor.queues.upsert_many(["q"])
    queue = await way.executor.queues.upsert("q")
    assert queue == replace(same, updated_at=queue.updated_at)
    assert (queue.paused_at, queue.created_at, queue.metadata.text) == (NOW, NOW, '{"a": 1}')


async def test_update(way: Way) -> None:
    await way.make.queue("q", updated_at=NOW, metadata='{"old": 1}')
    async with hearing(way.driver, "river_control") as heard:
        queue = await way.executor.queues.update("q", metadata='{"a": {"b": [1, 2]}}')
    assert queue == await way.executor.queues.row_get("q")
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
            await way.executor.queues.update("q", metadata="{}")
    assert heard == []


async def test_update_with_more_than_a_notification_holds(way: Way) -> None:
    await way.make.queue("q", metadata='{"old": 1}')
    with pytest.raises(BadRequest):
        await way.executor.queues.update("q", metadata=json.dumps({"a": "x" * 9000}))
    assert (await _stored(way, "q"))["metadata"] == {"old": 1}


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
