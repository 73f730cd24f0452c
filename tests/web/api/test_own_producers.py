"""River Pro's address of producers where the tables are riverui's own."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.factory import Make
from tests.pro_tables import PRO_TABLES
from tests.web.api.test_openapi import validate

Connection = AsyncConnection[dict[str, Any]]
Get = Callable[..., Awaitable[Any]]
LIMITS = {"global_limit": 5, "local_limit": 0, "partition": {"by_args": ["a"], "by_kind": False}}


@pytest.fixture
async def own(make: Make, own_tables: None) -> Make:
    """Write the rows of two clients that work a limited queue."""
    await make.queue()
    await make.execute(
        "insert into riverui_producer (client_id, queue, max_workers, concurrency, running)"
        " values ('one', 'default', 10, %s, %s), ('two', 'default', 20, '{}', '{}'),"
        " ('other', 'mail', 1, '{}', '{}')",
        [json.dumps(LIMITS), json.dumps({'{"a": 1}': 2, '{"a": 2}': 3})],
    )
    return make


async def test_clients_of_a_limited_queue_are_its_producers(get: Get, own: Make) -> None:
    assert (await get("features"))["extensions"]["producer_queries"] is True
    found = await get("pro/producers", queue_name="default")
    validate("Producers", found)
    one, two = found["data"]
    assert (one["client_id"], one["max_workers"], one["running"]) == ("one", 10, 5)
    assert (one["concurrency"], one["paused_at"]) == (LIMITS, None)
    assert (two["client_id"], two["running"]) == ("two", 0)
    assert await get("pro/producers", queue_name="gone") == {"data": []}
    await get("pro/producers", 400)


async def test_where_there_are_both_all_are_told(get: Get, own: Make) -> None:
    await own.execute(PRO_TABLES)
    await own.execute(
        "insert into river_producer (client_id, queue_name, max_workers)"
        " values ('theirs', 'default', 5), ('elsewhere', 'mail', 5)"
    )
    found = (await get("pro/producers", queue_name="default"))["data"]
    assert [row["client_id"] for row in found] == ["theirs", "one", "two"]
    assert len({row["id"] for row in found}) == 3
