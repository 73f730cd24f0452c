"""Leader election: one row, known by leader and start of the term."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

from riverui.domain.queues import LeaderRow
from riverui.storage.postgres.driver import PostgresDriver
from tests.storage.conftest import NOW, Way, hearing

TTL = timedelta(seconds=15)
"""How long a term lasts: River's figure."""


async def _stored(way: Way) -> list[dict[str, object]]:
    return [dict(row) for row in await way.make.rows("select * from river_leader")]


async def test_elect(way: Way) -> None:
    leader = await way.executor.leader_attempt_elect("me", ttl=TTL, now=NOW)
    assert leader == LeaderRow(leader_id="me", elected_at=NOW, expires_at=NOW + TTL)
    assert await _stored(way) == [
        {"leader_id": "me", "elected_at": NOW, "expires_at": NOW + TTL, "name": "default"}
    ]


async def test_elect_by_the_databases_clock(way: Way) -> None:
    leader = await way.executor.leader_attempt_elect("me", ttl=timedelta(seconds=2.5))
    assert leader is not None
    assert leader.expires_at - leader.elected_at == timedelta(seconds=2.5)
    assert abs(leader.elected_at - datetime.now(UTC)) < timedelta(seconds=5)
    again = await way.executor.leader_attempt_reelect("me", elected_at=leader.elected_at, ttl=TTL)
    assert again is not None
    assert again.elected_at == leader.elected_at
    assert again.expires_at > leader.expires_at


async def test_nobody_is_elected_twice(way: Way) -> None:
    first = await way.executor.leader_attempt_elect("me", ttl=TTL, now=NOW)
    assert first is not None
    for who in ("me", "you"):
        for later in (timedelta(0), TTL):
            assert await way.executor.leader_attempt_elect(who, ttl=TTL, now=NOW + later) is None
    assert len(await _stored(way)) == 1
    over = NOW + TTL + timedelta(microseconds=1)
    assert await way.executor.leader_attempt_elect("you", ttl=TTL, now=over) == LeaderRow(
        leader_id="you", elected_at=over, expires_at=over + TTL
    )
    assert len(await _stored(way)) == 1


async def test_reelect(way: Way) -> None:
    await way.executor.leader_attempt_elect("me", ttl=TTL, now=NOW)
    later = NOW + timedelta(seconds=5)
    leader = await way.executor.leader_attempt_reelect("me", elected_at=NOW, ttl=TTL, now=later)
    assert leader == LeaderRow(leader_id="me", elected_at=NOW, expires_at=later + TTL)
    # Another's term, another term, a term that has run out.
    assert (
        await way.executor.leader_attempt_reelect("you", elected_at=NOW, ttl=TTL, now=later) is None
    )
    assert (
        await way.executor.leader_attempt_reelect("me", elected_at=later, ttl=TTL, now=later)
        is None
    )
    over = later + TTL + timedelta(microseconds=1)
    assert (
        await way.executor.leader_attempt_reelect("me", elected_at=NOW, ttl=TTL, now=over) is None
    )
    assert [row["expires_at"] for row in await _stored(way)] == [later + TTL]


async def test_a_term_goes_on_unless_somebody_else_has_led(way: Way) -> None:
    await way.executor.leader_attempt_elect("me", ttl=TTL, now=NOW)
    later = NOW + timedelta(hours=1)
    assert await way.executor.leader_resume("you", elected_at=NOW, ttl=TTL, now=later) is None
    assert await way.executor.leader_resume("me", elected_at=later, ttl=TTL, now=later) is None
    leader = await way.executor.leader_resume("me", elected_at=NOW, ttl=TTL, now=later)
    assert leader == LeaderRow(leader_id="me", elected_at=NOW, expires_at=later + TTL)
    assert [row["expires_at"] for row in await _stored(way)] == [later + TTL]
    over = later + TTL + timedelta(seconds=1)
    await way.executor.leader_attempt_elect("you", ttl=TTL, now=over)
    assert await way.executor.leader_resume("me", elected_at=NOW, ttl=TTL, now=over) is None
    await way.executor.leader_resign("you", elected_at=over)
    assert await way.executor.leader_resume("me", elected_at=NOW, ttl=TTL, now=over) is None
    assert await _stored(way) == []


async def test_resign(way: Way) -> None:
    await way.executor.leader_attempt_elect("me", ttl=TTL, now=NOW)
    async with hearing(way.driver, "river_leadership") as heard:
        assert not await way.executor.leader_resign("you", elected_at=NOW)
        assert not await way.executor.leader_resign("me", elected_at=NOW + timedelta(seconds=1))
        assert len(await _stored(way)) == 1
        assert await way.executor.leader_resign("me", elected_at=NOW)
        assert await _stored(way) == []
        assert not await way.executor.leader_resign("me", elected_at=NOW)
    assert [(topic, json.loads(payload)) for topic, payload in heard] == [
        ("river_leadership", {"leader_id": "me", "action": "resigned"})
    ]


async def test_one_of_many_is_elected(driver: PostgresDriver) -> None:
    async def compete(name: str) -> LeaderRow | None:
        async with driver.session(timeout=timedelta(seconds=10)) as executor:
            return await executor.leader_attempt_elect(name, ttl=TTL)

    elected = await asyncio.gather(*(compete(f"client_{n}") for n in range(8)))
    (leader,) = [row for row in elected if row is not None]
    async with driver.reading() as executor:
        assert await executor.leader_get() == leader
