"""The twin's queues and leaders: the same is done to both sides' rows, as `twin` does for jobs."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

from riverui.errors import NotFound
from tests.interop.twin import GO, OURS, Twin, go_time, told_instants
from tests.interop.worker import Event, PeerError

TTL = timedelta(seconds=15)
"""How long a term lasts: River's figure."""


async def report(twin: Twin, name: str) -> None:
    """Say for a client that it serves the queue."""
    await twin.go.driver("QueueCreateOrSetUpdatedAt", Name=name, Now=go_time(twin.now))
    async with twin.driver.autocommit() as executor:
        await executor.queues.upsert(name, now=twin.now)


async def pause(twin: Twin, name: str) -> None:
    """Do River's QueuePause."""
    await _turn(twin, "pause", name)


async def resume(twin: Twin, name: str) -> None:
    """Do River's QueueResume."""
    await _turn(twin, "resume", name)


async def update(twin: Twin, name: str, metadata: str) -> None:
    """Do River's QueueUpdate."""
    found = await _found(
        twin.go.ask("queue_update", queue=name, value=json.loads(metadata), now="real")
    )
    try:
        async with twin.driver.transaction() as transaction:
            await transaction.queues.update(name, metadata=metadata)
    except NotFound:
        assert not found
    else:
        assert found


async def clean(twin: Twin, age: float, limit: int) -> None:
    """Run the queue cleaner's statement."""
    before = twin.now - timedelta(seconds=age)
    theirs = await twin.go.driver("QueueDeleteExpired", Max=limit, UpdatedAtHorizon=go_time(before))
    async with twin.driver.autocommit() as executor:
        ours = await executor.queues.delete_expired(updated_before=before, limit=limit)
    assert sorted(theirs or []) == sorted(ours)


async def elect(twin: Twin, leader_id: str) -> None:
    """Stand for election, as both electors do: terms that have run out are removed first."""
    await twin.go.driver("LeaderDeleteExpired", Now=go_time(twin.now))
    elected = await _leader(
        twin, "LeaderAttemptElect", LeaderID=leader_id, Now=go_time(twin.now), TTL=TTL
    )
    async with twin.driver.autocommit() as executor:
        row = await executor.leader.attempt_elect(leader_id, ttl=TTL, now=twin.now)
    assert (row is not None) == elected


async def reelect(twin: Twin, leader_id: str, *, another_term: bool) -> None:
    """Prolong a term: the one that runs, or another one."""
    theirs, ours = await _terms(twin)
    shift = timedelta(seconds=another_term)
    prolonged = await _leader(
        twin,
        "LeaderAttemptReelect",
        ElectedAt=go_time(theirs + shift),
        LeaderID=leader_id,
        Now=go_time(twin.now),
        TTL=TTL,
    )
    async with twin.driver.autocommit() as executor:
        row = await executor.leader.attempt_reelect(
            leader_id, elected_at=ours + shift, ttl=TTL, now=twin.now
        )
    assert (row is not None) == prolonged


async def resign(twin: Twin, leader_id: str, *, another_term: bool) -> None:
    """End a term: the one that runs, or another one."""
    theirs, ours = await _terms(twin)
    shift = timedelta(seconds=another_term)
    ended = await twin.go.driver(
        "LeaderResign",
        ElectedAt=go_time(theirs + shift),
        LeaderID=leader_id,
        LeadershipTopic="river_leadership",
    )
    async with twin.driver.autocommit() as executor:
        assert await executor.leader.resign(leader_id, elected_at=ours + shift) == bool(ended)


async def check(twin: Twin) -> None:
    """Check that queues and leaders are the same on both sides."""
    for table, key in (("river_queue", "name"), ("river_leader", "leader_id")):
        sides = []
        for schema in (GO, OURS):
            cursor = await twin.connection.execute(f"select * from {schema}.{table} order by {key}")
            sides.append([told_instants(row) for row in await cursor.fetchall()])
        assert sides[1] == sides[0], f"Go {sides[0]}, we {sides[1]}"


async def _turn(twin: Twin, verb: str, name: str) -> None:
    found = await _found(twin.go.ask(verb, queue=name, now="real"))
    try:
        async with twin.driver.transaction() as transaction:
            await getattr(transaction.queues, verb)(name)
    except NotFound:
        assert not found
    else:
        assert found


async def _found(asking: Awaitable[Event]) -> bool:
    """Return whether Go found what it was asked about."""
    try:
        await asking
    except PeerError as error:
        if "not found" not in str(error):
            raise
        return False
    return True


async def _leader(twin: Twin, method: str, **params: Any) -> bool:
    params["TTL"] = int(params["TTL"].total_seconds() * 1e9)
    try:
        return bool(await twin.go.driver(method, **params))
    except PeerError as error:
        if "not found" not in str(error):
            raise
        return False


async def _terms(twin: Twin) -> tuple[datetime, datetime]:
    """Return when the terms that run began."""
    found = []
    for schema in (GO, OURS):
        cursor = await twin.connection.execute(f"select elected_at from {schema}.river_leader")
        row = await cursor.fetchone()
        found.append(row["elected_at"].astimezone(UTC) if row else twin.now)
    return found[0], found[1]
