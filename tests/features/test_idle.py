"""The statements of features while there is nothing to do: the leader's services over some
minutes of a clock that tests move.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from bench.engine.wiretap import Wiretap, wiretap
from riverui.engine.client import Client
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.lead.maintenance.service import MaintenanceService, ServiceContext
from riverui.engine.notifier import Notifier
from riverui.features.sequences.engine.opts import SequenceOpts
from riverui.features.workflows.waits.domain import SignalTerm, TimerTerm, Wait
from riverui.features.workflows.waits.engine.service import WaitEvaluator
from riverui.storage.interface import Driver
from tests.drivers import connect
from tests.engine.conftest import Playground, Task
from tests.engine.ticking import Ticking, eventually
from tests.features.conftest import Step, Workshop

_MINUTES = 5
"""Counted, behind as many that are not: in the first, tables are found."""


class Leader:
    """The services that a client's features give its leader, with connections that are counted."""

    def __init__(self, client: Client, driver: Driver, notifier: Notifier, tap: Wiretap) -> None:
        self.clock = Ticking()
        self.driver = driver
        self.notifier = notifier
        self.tap = tap
        context = ServiceContext(
            driver=driver,
            clock=self.clock.now,
            logger=logging.getLogger("test"),
            notifier=notifier,
            now=self.clock.steady,
        )
        self.services = client.pilot.services(context)
        (self.waits,) = [each for each in self.services if isinstance(each, WaitEvaluator)]

    async def per_minute(self) -> dict[str, float]:
        """Return how many statements each service takes, `begin` and `commit` among them."""
        found = {}
        for service in self.services:
            await self._let_run(service)
            self.tap.clear()
            await self._let_run(service)
            found[service.name] = self.tap.total / _MINUTES
        return found

    async def _let_run(self, service: MaintenanceService) -> None:
        end = self.clock.steady() + 60 * _MINUTES
        while self.clock.steady() < end:
            await service.run_once()
            self.clock.advance(service.interval.total_seconds())


@asynccontextmanager
async def leading(client: Client, database_url: str) -> AsyncIterator[Leader]:
    """Yield the services of a client."""
    own = connect(database_url)
    notifier = Notifier(own, logging.getLogger("test"))
    await notifier.connect()
    listening = asyncio.create_task(notifier.run())
    try:
        async with wiretap(database_url) as (url, tap):
            driver = connect(url)
            leader = Leader(client, driver, notifier, tap)
            try:
                yield leader
            finally:
                leader.waits.close()
                await driver.close()
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await notifier.close()
        await own.close()


@pytest.fixture
def client(shop: Workshop) -> Client:
    """Return a client that only inserts."""
    return shop.make(skip_unknown_job_check=True)


async def test_unused_features_read_next_to_nothing(client: Client, database_url: str) -> None:
    async with leading(client, database_url) as leader:
        asked = await leader.per_minute()
    assert asked.pop("workflow waits") <= 4
    assert asked.pop("sequence scheduler") <= 12
    assert asked.pop("workflow strays") <= 6
    assert asked.pop("forsaken workflows") <= 6
    assert sum(asked.values()) <= 1


async def test_waits_and_sequences_that_stand_still_ask_once_a_round(
    client: Client, database_url: str
) -> None:
    workflow = client.workflows.new()
    workflow.add("approved", Step(), wait=Wait("approved", [SignalTerm("approved", "approval")]))
    workflow.add("later", Step(), wait=Wait("late", [TimerTerm("late", after=timedelta(days=1))]))
    workflow.add("now", Step())
    await workflow.insert()
    for _ in range(3):
        await client.insert(Task(), InsertOpts(sequence=SequenceOpts()))
    async with leading(client, database_url) as leader:
        asked = await leader.per_minute()
    assert asked.pop("workflow waits") <= 4
    # One of them asks for the tables.
    assert asked.pop("sequence scheduler") <= 61
    assert asked.pop("workflow strays") <= 6
    assert asked.pop("forsaken workflows") <= 6
    assert sum(asked.values()) <= 1


async def test_without_the_tables_they_are_looked_for_now_and_then(
    play: Playground, database_url: str
) -> None:
    client = play.make(skip_unknown_job_check=True)
    async with leading(client, database_url) as leader:
        asked = await leader.per_minute()
    assert sum(asked.values()) <= 12


async def test_a_leader_at_rest_hears_of_waits_that_begin_and_of_signals(
    client: Client, shop: Workshop, database_url: str
) -> None:
    async with leading(client, database_url) as leader:

        async def looked() -> int:
            return await leader.waits.run_once()

        assert await looked() == 0
        leader.tap.clear()
        assert await looked() == 0
        assert leader.tap.total == 0, "it knows that nothing is due"

        workflow = client.workflows.new()
        workflow.add("ship", Step(), wait=Wait("approved", [SignalTerm("approved", "approval")]))
        await workflow.insert()
        await eventually(lambda: _has_begun(shop, leader))
        leader.tap.clear()
        assert await looked() == 0
        assert leader.tap.total == 0, "nothing has come since"

        await client.workflows.signal(workflow.id, "approval")
        await eventually(looked)
        assert await shop.own() == {"ship": "staged"}


async def test_a_wait_whose_turn_comes_when_others_end_is_heard_of(
    shop: Workshop, database_url: str
) -> None:
    client = await shop.start()
    async with leading(client, database_url) as leader:
        assert await leader.waits.run_once() == 0
        workflow = client.workflows.new()
        wait = Wait("at_once", [TimerTerm("at_once", after=timedelta())])
        workflow.add("ship", Step(), deps=[workflow.add("pack", Step())], wait=wait)
        await workflow.insert()
        await eventually(leader.waits.run_once)
        await shop.until(lambda: shop.worked == ["pack", "ship"])


async def test_what_was_not_heard_is_looked_for_after_half_a_minute(
    client: Client, shop: Workshop, database_url: str
) -> None:
    workflow = client.workflows.new()
    workflow.add("ship", Step(), wait=Wait("approved", [SignalTerm("approved", "approval")]))
    await workflow.insert()
    async with leading(client, database_url) as leader:
        assert await leader.waits.run_once() == 0
        await shop.connection.execute("update riverui_workflow_task set wait_due_at = now()")
        leader.tap.clear()
        leader.clock.advance(29)
        assert await leader.waits.run_once() == 0
        assert leader.tap.total == 0
        leader.clock.advance(1)
        await leader.waits.run_once()
        assert leader.tap.total > 2


async def test_a_leader_that_hears_nothing_looks_in_every_round(
    client: Client, database_url: str
) -> None:
    async with leading(client, database_url) as leader:
        await leader.waits.run_once()
        await leader.notifier.close()
        leader.tap.clear()
        await leader.waits.run_once()
        assert leader.tap.total > 0


async def _has_begun(shop: Workshop, leader: Leader) -> bool:
    """Look, and return whether the wait of the only task was looked at."""
    await leader.waits.run_once()
    (row,) = await shop.rows("select wait_changes from riverui_workflow_task")
    return bool(row["wait_changes"])
