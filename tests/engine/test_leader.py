"""Elections against a real `river_leader` row: terms, hand-over, loss, and who may trust it how
long.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.engine.lead.elector import Elector, LeaderTerm
from riverui.storage.interface import Listener
from riverui.storage.postgres.driver import PostgresDriver
from tests.engine.ticking import Ticking, eventually, settled
from tests.factory import leader

Started = Callable[..., "Candidate"]


class Candidate:
    """An elector with its own clock, and a record of its terms."""

    def __init__(self, driver: PostgresDriver, name: str, clock: Ticking) -> None:
        self.clock = clock
        self.name = name
        self.terms: list[LeaderTerm] = []
        self.leading = 0
        self.fails: Exception | None = None
        self.elector = Elector(driver, name, self.lead, now=clock.steady, sleep=clock.sleep)
        self.task: asyncio.Task[None] | None = None

    async def lead(self, term: LeaderTerm) -> None:
        self.terms.append(term)
        self.leading += 1
        try:
            if self.fails:
                raise self.fails
            await asyncio.Event().wait()
        finally:
            self.leading -= 1

    def run(self) -> Candidate:
        self.task = asyncio.create_task(self.elector.run())
        return self

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def leads(self, terms: int = 1) -> None:
        await eventually(lambda: self.leading and len(self.terms) == terms)
        # It waits for the time to renew its term.
        await eventually(lambda: self.clock.sleeping)

    async def follows(self) -> None:
        await eventually(lambda: not self.elector.is_leader and self.clock.sleeping)


@pytest.fixture
async def candidate(driver: PostgresDriver) -> AsyncIterator[Started]:
    made: list[Candidate] = []

    def make(name: str = "one", clock: Ticking | None = None) -> Candidate:
        made.append(Candidate(driver, name, clock or Ticking()))
        return made[-1]

    yield make
    for one in made:
        if one.task:
            await one.stop()


async def row(connection: AsyncConnection[Any]) -> dict[str, Any] | None:
    found = await (await connection.execute("select * from river_leader")).fetchone()
    return dict(found) if found else None


@asynccontextmanager
async def hearing(
    driver: PostgresDriver, *candidates: Candidate
) -> AsyncIterator[list[dict[str, Any]]]:
    """Brings the notifications to the candidates, as a client's notifier does."""
    listener: Listener = await driver.listener()
    await listener.listen("river_leadership")
    heard: list[dict[str, Any]] = []

    async def listen() -> None:
        async for _, payload in listener.notifications():
            heard.append(json.loads(payload))
            for one in candidates:
                one.elector.notified(json.loads(payload))

    task = asyncio.create_task(listen())
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await listener.close()


async def test_a_lone_client_leads_and_resigns_when_it_stops(
    candidate: Started, driver: PostgresDriver, connection: AsyncConnection[Any]
) -> None:
    one = candidate().run()
    await one.leads()
    found = await row(connection)
    assert found is not None
    assert found["leader_id"] == "one"
    assert found["expires_at"] - found["elected_at"] == timedelta(seconds=15)
    assert one.terms[0].elected_at == found["elected_at"]
    assert one.elector.is_leader
    async with hearing(driver) as heard:
        await one.stop()
        assert await row(connection) is None
        assert not one.leading
        assert not one.elector.is_leader
        await eventually(lambda: {"leader_id": "one", "action": "resigned"} in heard)


async def test_leadership_is_kept_by_renewing_the_term(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    one = candidate().run()
    await one.leads()
    first = await row(connection)
    assert first is not None
    for _ in range(6):
        one.clock.advance(5)
        await eventually(lambda: one.clock.sleeping)
    await settled()
    last = await row(connection)
    assert last is not None
    assert len(one.terms) == 1
    assert last["elected_at"] == first["elected_at"]
    assert last["expires_at"] > first["expires_at"]
    # 30 seconds have passed for it, so that the first term alone would be over.
    assert one.terms[0].trusted


async def test_of_three_one_leads_and_each_takes_over_from_the_one_before(
    candidate: Started, driver: PostgresDriver, connection: AsyncConnection[Any]
) -> None:
    three = [candidate(name) for name in ("one", "two", "three")]
    async with hearing(driver, *three):
        for one in three:
            one.run()
        order = []
        for count in range(3):
            await eventually(lambda: sum(one.leading for one in three) == 1)
            chosen = next(one for one in three if one.leading)
            order.append(chosen)
            for one in three:
                if one not in order:
                    await one.follows()
            found = await row(connection)
            assert found is not None
            assert found["leader_id"] == chosen.name
            await chosen.stop()
            if count < 2:
                # The others have heard of it, and wait a moment at random before they bid.
                await eventually(
                    lambda: all(one.clock.soonest < 0.05 for one in three if one not in order)
                )
                for one in three:
                    one.clock.advance(0.05)
    assert len({id(one) for one in order}) == 3


async def test_a_follower_bids_again_without_a_notification(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    await leader(connection, "gone")
    one = candidate().run()
    await one.follows()
    (wait,) = one.clock.sleeping
    assert 5 <= wait <= 6
    await connection.execute("update river_leader set expires_at = now() - interval '1 second'")
    one.clock.advance(6)
    await one.leads()
    found = await row(connection)
    assert found is not None
    assert found["leader_id"] == "one"
    assert datetime.now(UTC) - found["elected_at"] < timedelta(seconds=10)


async def test_a_leader_with_the_same_name_from_an_earlier_run_is_another(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    await leader(connection, "one")
    before = await row(connection)
    one = candidate("one").run()
    await one.follows()
    assert await row(connection) == before


async def test_a_lost_term_ends_at_once_and_is_not_resigned(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    one = candidate("one").run()
    await one.leads()
    # The same name, another term: as after a crash and a restart that this process knows nothing
    # of.
    await connection.execute(
        "update river_leader set elected_at = elected_at + interval '1 second'"
    )
    replaced = await row(connection)
    one.clock.advance(5)
    await one.follows()
    assert not one.leading
    assert await row(connection) == replaced


async def test_a_table_emptied_by_a_crash_of_the_server_ends_the_term(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    one = candidate("one").run()
    await one.leads()
    await connection.execute("truncate river_leader")
    one.clock.advance(5)
    await one.leads(terms=2)
    assert one.terms[0].elected_at < one.terms[1].elected_at


async def test_errors_exhaust_the_trust_and_the_leader_steps_down(
    candidate: Started, connection: AsyncConnection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    one = candidate().run()
    await one.leads()
    await connection.execute("alter table river_leader rename to river_leader_away")
    began = one.clock.steady()
    one.clock.advance(5)
    while one.leading:
        await eventually(lambda: one.clock.sleeping or not one.leading)
        assert one.clock.steady() - began < 15
        if one.leading:
            one.clock.advance(0.5)
        await settled()
    # 15 seconds of the database's, less one to be on the safe side.
    assert 13.5 <= one.clock.steady() - began <= 14.5
    assert "could not renew leadership" in caplog.text
    assert "could not be renewed in time" in caplog.text
    await connection.execute("alter table river_leader_away rename to river_leader")
    await connection.execute("update river_leader set expires_at = now() - interval '1 second'")
    for _ in range(40):
        if one.leading:
            break
        await eventually(lambda: one.clock.sleeping or one.leading)
        one.clock.advance(5)
    await one.leads(terms=2)


async def cut_off(one: Candidate, connection: AsyncConnection[Any]) -> None:
    """Lets a term run out because the database is away, and comes back with it."""
    await connection.execute("alter table river_leader rename to river_leader_away")
    for _ in range(40):
        one.clock.advance(0.5)
        await settled()
        await eventually(lambda: one.clock.sleeping)
        if not one.leading:
            break
    assert not one.leading
    await connection.execute("alter table river_leader_away rename to river_leader")
    await connection.execute("update river_leader set expires_at = now() - interval '1 second'")


@pytest.mark.parametrize(
    ("meanwhile", "same"),
    [
        ("select", True),
        # The term still runs in the database.
        ("update river_leader set expires_at = now() + interval '10 seconds'", True),
        # Another client has led.
        ("delete from river_leader", False),
    ],
)
async def test_a_leader_that_was_cut_off_goes_on_with_its_term(
    candidate: Started, connection: AsyncConnection[Any], meanwhile: str, same: bool
) -> None:
    one = candidate().run()
    await one.leads()
    await cut_off(one, connection)
    await connection.execute(meanwhile.encode())
    one.clock.advance(70)
    await one.leads(terms=2)
    assert (one.terms[1].elected_at == one.terms[0].elected_at) == same
    assert one.terms[1].elected_at >= one.terms[0].elected_at
    assert one.terms[1].trusted
    assert not one.terms[0].trusted


async def test_a_stopped_process_trusts_nothing_when_it_goes_on(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    one = candidate().run()
    await one.leads()
    await connection.execute("update river_leader set leader_id = 'other', elected_at = now()")
    one.clock.advance(14)
    # Known before anything else runs: no service may begin a round now.
    assert not one.terms[0].trusted
    assert one.terms[0].remaining == 0
    await one.follows()
    assert not one.leading
    found = await row(connection)
    assert found is not None
    assert found["leader_id"] == "other"


async def test_a_slow_answer_does_not_prolong_the_trust(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    one = candidate().run()
    await one.leads()
    async with connection.transaction():
        await connection.execute("select from river_leader for update")
        one.clock.advance(5)
        await eventually(lambda: _waiting_for_locks(connection))
        # The row is held for three seconds of the leader's.
        one.clock.advance(3)
    await eventually(lambda: one.terms[0].trusted_until == 19)
    assert one.leading


async def _waiting_for_locks(connection: AsyncConnection[Any]) -> int:
    # Other processes' tests share the server, each with its own database.
    found = await (
        await connection.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )
    ).fetchone()
    assert found is not None
    return int(found["count"])


async def test_clocks_that_differ_do_not_make_two_leaders(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    ahead = Ticking(datetime.now(UTC) + timedelta(hours=3))
    ahead.advance(1_000_000)
    behind = Ticking(datetime.now(UTC) - timedelta(hours=3))
    first, second = candidate("ahead", ahead), candidate("behind", behind)
    first.run()
    await first.leads()
    second.run()
    await second.follows()
    for _ in range(3):
        first.clock.advance(5)
        second.clock.advance(6)
        await eventually(lambda: first.clock.sleeping and second.clock.sleeping)
        await settled()
    assert (first.leading, second.leading) == (1, 0)
    found = await row(connection)
    assert found is not None
    assert abs(datetime.now(UTC) - found["elected_at"]) < timedelta(seconds=10)


async def test_a_leader_that_is_asked_resigns_and_leaves_others_the_first_bid(
    candidate: Started, driver: PostgresDriver, connection: AsyncConnection[Any]
) -> None:
    one, two = candidate("one"), candidate("two")
    one.run()
    await one.leads()
    two.run()
    await two.follows()
    async with hearing(driver, one, two):
        async with driver.autocommit() as executor:
            await executor.notify_many(
                "river_leadership", ['{"action":"request_resign","leader_id":""}']
            )
        await eventually(lambda: not one.leading)
        await eventually(lambda: one.clock.soonest <= 0.1)
        assert one.clock.soonest >= 0.05
        await eventually(lambda: two.clock.soonest < 0.05)
        two.clock.advance(0.05)
        await two.leads()
        one.clock.advance(0.1)
        await one.follows()
        # Alone, it is elected again.
        await two.stop()
        await eventually(lambda: one.clock.soonest < 0.05)
        one.clock.advance(0.05)
        await one.leads(terms=2)


async def test_a_follower_does_not_resign_what_it_may_get_later(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    await leader(connection, "other")
    one = candidate().run()
    await one.follows()
    one.elector.request_resign()
    await connection.execute("delete from river_leader")
    one.clock.advance(6)
    await one.leads()
    await settled()
    assert one.leading


async def test_many_requests_to_resign_count_once(candidate: Started) -> None:
    one = candidate().run()
    await one.leads()
    for _ in range(10):
        one.elector.request_resign()
    await eventually(lambda: not one.leading)
    await eventually(lambda: one.clock.sleeping)
    one.clock.advance(0.1)
    await one.leads(terms=2)
    await settled()
    assert one.leading


async def test_other_notifications_wake_no_candidate(
    candidate: Started, connection: AsyncConnection[Any]
) -> None:
    await leader(connection, "other")
    one = candidate("one").run()
    await one.follows()
    messages: list[dict[str, Any]] = [{"action": "resigned", "leader_id": "one"}]
    for message in (*messages, {"action": "other"}, {}, {"action": ["resigned"]}):
        one.elector.notified(message)
        await settled()
        assert one.clock.soonest >= 5


async def test_a_leader_whose_maintenance_fails_resigns(
    candidate: Started,
    driver: PostgresDriver,
    connection: AsyncConnection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = candidate()
    one.fails = RuntimeError("it cannot be started")
    one.run()
    await eventually(lambda: one.terms and not one.elector.is_leader and one.clock.sleeping)
    assert await row(connection) is None
    assert one.clock.sleeping == [5.0]
    assert "it cannot be started" in caplog.text
    one.fails = None
    one.clock.advance(5)
    await one.leads(terms=2)


async def test_a_stop_waits_for_the_maintenance_to_end(driver: PostgresDriver) -> None:
    ended = asyncio.Event()

    async def lead(term: LeaderTerm) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await settled()
            ended.set()

    elector = Elector(driver, "one", lead)
    task = asyncio.create_task(elector.run())
    await eventually(lambda: elector.is_leader)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_candidate_without_a_database_tries_again_and_again(
    candidate: Started, connection: AsyncConnection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await connection.execute("alter table river_leader rename to river_leader_away")
    one = candidate().run()
    for expected in (1, 2, 4):
        await eventually(lambda: one.clock.sleeping)
        assert one.clock.sleeping == [pytest.approx(expected, rel=0.101)]
        one.clock.advance(expected * 1.2)
        await settled()
    await eventually(lambda: one.clock.sleeping)
    await connection.execute("alter table river_leader_away rename to river_leader")
    one.clock.advance(20)
    await one.leads()
    assert caplog.text.count("could not stand for election") >= 4
