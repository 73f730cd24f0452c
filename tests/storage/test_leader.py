"""Leader election: one row, known by leader and start of the term."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

from riverui.domain.queues import LeaderRow
from riverui.storage.postgres.driver import PostgresDriver
from tests.storage.conftest import NOW, Way, hearing

TTL = timedelta(seconds=15)
"""How long a term lasts: River's figure."""


async def test_resign(way: Way) -> None:
    await way.executor.leader.attempt_elect("me", ttl=TTL, now=NOW)
    async with hearing(way.driver, "river_leadership") as heard:
        assert not await way.executor.leader.resign("you", elected_at=NOW)
        assert not await way.executor.leader.resign("me", elected_at=NOW + timedelta(seconds=1))
        assert await way.make.rows("select * from river_leader") == [
            {"leader_id": "me", "elected_at": NOW, "expires_at": NOW + TTL, "name": "default"}
        ]
        assert await way.executor.leader.resign("me", elected_at=NOW)
    assert [(topic, json.loads(payload)) for topic, payload in heard] == [
        ("river_leadership", {"leader_id": "me", "action": "resigned"})
    ]


async def test_one_of_many_is_elected(driver: PostgresDriver) -> None:
    async def compete(name: str) -> LeaderRow | None:
        async with driver.session(timeout=timedelta(seconds=10)) as executor:
            return await executor.leader.attempt_elect(name, ttl=TTL)

    elected = await asyncio.gather(*(compete(f"client_{n}") for n in range(8)))
    (leader,) = [row for row in elected if row is not None]
    async with driver.reading() as executor:
        assert await executor.leader.get() == leader
