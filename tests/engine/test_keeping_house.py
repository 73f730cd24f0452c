"""Leadership and maintenance in whole clients, on their own clocks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from riverui.engine.client import Client
from riverui.engine.lead.periodic import PeriodicInterval, PeriodicJob
from tests.engine.conftest import Playground


@dataclass
class Tick:
    kind: ClassVar[str] = "tick"
    by: str = ""


def periodic(name: str) -> PeriodicJob:
    """Return a job that names the client that inserted it."""
    return PeriodicJob(PeriodicInterval(timedelta(hours=1)), lambda: Tick(name), run_on_start=True)


async def leader(play: Playground) -> Any:
    rows = await play.rows("select leader_id from river_leader")
    return rows[0]["leader_id"] if rows else None


async def ticks(play: Playground) -> list[str]:
    rows = await play.rows(
        "select args ->> 'by' as by from river_job where kind = 'tick' order by id"
    )
    return [row["by"] for row in rows]


async def started(play: Playground, name: str, **settings: Any) -> Client:
    return await play.start(
        id=name, leader_election_disabled=False, periodic_jobs=[periodic(name)], **settings
    )


async def test_the_next_client_takes_over_when_the_leader_stops(play: Playground) -> None:
    play.worker(_nothing, Tick)
    one = await started(play, "one")
    await play.until(lambda: one.is_leader)
    two = await started(play, "two")

    async def one_inserted() -> bool:
        return await ticks(play) == ["one"]

    async def two_inserted() -> bool:
        return await ticks(play) == ["one", "two"]

    await play.until(one_inserted)
    assert not two.is_leader
    assert await leader(play) == "one"
    await one.stop()
    assert not one.is_leader
    # By notification: otherwise the next bid would come after five seconds, the limit of this test.
    async with asyncio.timeout(4):
        await play.until(lambda: two.is_leader)
    await play.until(two_inserted)
    await two.stop()
    assert await leader(play) is None
    states = await play.rows("select distinct state::text from river_job where kind = 'tick'")
    assert [row["state"] for row in states] == ["completed"]


async def test_a_leader_can_be_asked_to_resign_by_any_client(play: Playground) -> None:
    play.worker(_nothing, Tick)
    one = await started(play, "one")
    await play.until(lambda: one.is_leader)
    (first,) = await play.rows("select elected_at from river_leader")
    await play.make().request_resign()

    async def elected_anew() -> bool:
        rows = await play.rows("select elected_at from river_leader")
        return bool(rows) and rows[0]["elected_at"] > first["elected_at"]

    await play.until(elected_anew)


async def test_a_client_that_declines_does_not_lead(play: Playground) -> None:
    play.worker(_nothing, Tick)
    one = await play.start(leader_election_disabled=True)
    job_id = await play.insert(Tick())
    await play.event(job_id)
    assert not one.is_leader
    assert await leader(play) is None


async def _nothing(job: object) -> None:
    pass
