"""One client leads, for a term at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from riverui.domain.queues import LeaderRow
from riverui.storage.interface import Driver
from tests.contract.seeds import NOW

TTL = timedelta(seconds=15)
"""How long a term lasts: River's value."""


async def test_who_is_elected_first_leads(driver: Driver) -> None:
    async with driver.autocommit() as executor:
        assert await executor.leader.get() is None
        over = datetime.now(UTC) - 2 * TTL
        await executor.leader.attempt_elect("who was", ttl=TTL, now=over)
        assert await executor.leader.get() is None, "the term is over"
        await executor.leader.resign("who was", elected_at=over)
        leader = await executor.leader.attempt_elect("me", ttl=TTL, now=NOW)
        assert leader == LeaderRow(leader_id="me", elected_at=NOW, expires_at=NOW + TTL)
        for name in ("me", "you"):
            for now in (NOW, NOW + TTL):
                assert await executor.leader.attempt_elect(name, ttl=TTL, now=now) is None
        over = NOW + TTL + timedelta(milliseconds=1)
        after = await executor.leader.attempt_elect("you", ttl=TTL, now=over)
        assert after == LeaderRow(leader_id="you", elected_at=over, expires_at=over + TTL)


async def test_the_database_has_a_clock(driver: Driver) -> None:
    async with driver.autocommit() as executor:
        leader = await executor.leader.attempt_elect("me", ttl=TTL)
        assert leader is not None
        assert await executor.leader.get() == leader
        again = await executor.leader.attempt_reelect("me", elected_at=leader.elected_at, ttl=TTL)
        assert again is not None
        assert again.elected_at == leader.elected_at
        assert again.expires_at >= leader.expires_at
    assert abs(leader.elected_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert leader.expires_at - leader.elected_at == TTL


async def test_a_term_is_prolonged_while_it_lasts(driver: Driver) -> None:
    later = NOW + timedelta(seconds=5)
    async with driver.autocommit() as executor:
        await executor.leader.attempt_elect("me", ttl=TTL, now=NOW)
        leader = await executor.leader.attempt_reelect("me", elected_at=NOW, ttl=TTL, now=later)
        assert leader == LeaderRow(leader_id="me", elected_at=NOW, expires_at=later + TTL)
        for name, elected_at, now in (
            ("you", NOW, later),
            ("me", later, later),
            ("me", NOW, later + TTL + timedelta(milliseconds=1)),
        ):
            assert (
                await executor.leader.attempt_reelect(name, elected_at=elected_at, ttl=TTL, now=now)
                is None
            )


async def test_a_term_continues_unless_another_client_has_led(driver: Driver) -> None:
    hour = timedelta(hours=1)
    async with driver.autocommit() as executor:
        await executor.leader.attempt_elect("me", ttl=TTL, now=NOW)
        for name, elected_at in (("you", NOW), ("me", NOW + hour)):
            assert (
                await executor.leader.resume(name, elected_at=elected_at, ttl=TTL, now=NOW + hour)
                is None
            )
        leader = await executor.leader.resume("me", elected_at=NOW, ttl=TTL, now=NOW + hour)
        assert leader == LeaderRow(leader_id="me", elected_at=NOW, expires_at=NOW + hour + TTL)
        await executor.leader.attempt_elect("you", ttl=TTL, now=NOW + 2 * hour)
        assert (
            await executor.leader.resume("me", elected_at=NOW, ttl=TTL, now=NOW + 2 * hour) is None
        )


async def test_only_the_leader_resigns(driver: Driver) -> None:
    async with driver.autocommit() as executor:
        await executor.leader.attempt_elect("me", ttl=TTL, now=NOW)
        assert not await executor.leader.resign("you", elected_at=NOW)
        assert not await executor.leader.resign("me", elected_at=NOW + TTL)
        assert await executor.leader.resign("me", elected_at=NOW)
        assert not await executor.leader.resign("me", elected_at=NOW)
        assert await executor.leader.get() is None
