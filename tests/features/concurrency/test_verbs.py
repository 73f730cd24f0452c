"""Limits of jobs at once as a page reads and sets them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.rows import DictRow

from riverui.domain.partitions import Partition
from riverui.errors import NotFound
from riverui.features.concurrency import verbs as concurrency
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.concurrency.store import LeaseParams, LimitStore
from riverui.features.heartbeats.store import ClientLife
from riverui.storage.interface import Driver
from tests import factory
from tests.own_tables import OWN_TABLES

LIMITS = ConcurrencyConfig(
    global_limit=3, partition=Partition(by_args=["customer_id"], by_kind=True)
)


async def _read(driver: Driver, **params: Any) -> concurrency.QueueConcurrency:
    async with driver.reading() as executor:
        row = await executor.queues.row_get("default")
        assert row is not None
        return await concurrency.read(executor, row, now=datetime.now(UTC), **params)


async def test_an_override_is_set_and_removed_and_nothing_else(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    await factory.queue(connection, "default", metadata={"owner": "ann"})
    await concurrency.set_override(driver, "default", LIMITS)
    found = await _read(driver)
    assert found.override == found.effective == LIMITS
    assert found.missing == "the tables of riverui"
    await concurrency.remove_override(driver, "default")
    found = await _read(driver)
    assert found.override is None
    assert found.effective is None
    async with driver.reading() as executor:
        row = await executor.queues.row_get("default")
    assert row is not None
    assert json.loads(row.metadata.text) == {"owner": "ann"}
    with pytest.raises(NotFound):
        await concurrency.set_override(driver, "none", LIMITS)


async def test_what_clients_keep_to_and_what_runs(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    await connection.execute(OWN_TABLES)
    await factory.queue(connection, "default", metadata={"concurrency": ["nonsense"]})
    cursor = await connection.execute(
        "insert into riverui_client (id, heartbeat_interval) values ('a', '20 s')"
        " returning id, registered_at"
    )
    row = await cursor.fetchone()
    assert row is not None
    async with driver.autocommit() as executor:
        limits = LimitStore(executor)
        for client, config in (("a", LIMITS), ("b", LIMITS), ("c", ConcurrencyConfig())):
            await limits.limited_producer_upsert(
                client_id=client,
                queue="default",
                max_workers=7,
                concurrency=config.as_json(),
                running='{"k": 2}',
            )
        wanted = {f"key {number}": 1 + number % 2 for number in range(5)}
        await limits.limit_lease(
            LeaseParams(life=ClientLife(**row), queue="default", most=3, wanted=wanted)
        )
    found = await _read(driver, limit=3)
    assert found.override is None
    assert found.problem == "concurrency must be an object."
    assert found.configured == {LIMITS: 2, ConcurrencyConfig(): 1}
    assert found.effective == LIMITS
    assert found.missing == ""
    assert [(part.key, part.taken) for part in found.partitions] == [
        ("key 1", 2),
        ("key 3", 2),
        ("key 0", 1),
    ]
    assert found.more
    async with driver.reading() as executor:
        queue = await executor.queues.row_get("default")
        assert queue is not None
        rows = await concurrency.producers(executor, queue, now=datetime.now(UTC))
    assert [(row.client_id, row.queue_name, row.max_workers) for row in rows] == [
        ("a", "default", 7),
        ("b", "default", 7),
        ("c", "default", 7),
    ]
    assert json.loads(rows[0].metadata)["concurrency"] == {
        **json.loads(LIMITS.as_json()),
        "running": {"k": 2},
    }


async def test_without_the_tables_no_client_is_known(
    driver: Driver, connection: AsyncConnection[DictRow]
) -> None:
    await factory.queue(connection, "default")
    async with driver.reading() as executor:
        queue = await executor.queues.row_get("default")
        assert queue is not None
        assert await concurrency.producers(executor, queue, now=datetime.now(UTC)) == []
