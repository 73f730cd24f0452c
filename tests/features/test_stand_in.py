"""What only riverui's clients know to do goes on while a client of another kind leads."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest

from riverui.engine.client import Client
from riverui.engine.limits import EngineLimits
from riverui.features.heartbeats.store import ClientStore
from riverui.features.workflows.waits.domain import TimerTerm, Wait
from tests import factory
from tests.features.conftest import Step, Workshop

LIMITS = EngineLimits(stand_in_seconds=0.1)
HOUR = timedelta(hours=1)
OFTEN = timedelta(milliseconds=20)
"""Between two looks at waits: no second of the test's."""


async def wait_through(shop: Workshop, client: Client) -> None:
    """Have a task worked that waits for a timer."""
    worked = len(shop.worked)
    workflow = client.workflows.new()
    workflow.add("late", Step(), wait=Wait("late", [TimerTerm("late", after=timedelta())]))
    await workflow.insert()
    await shop.until(lambda: len(shop.worked) > worked)


async def test_one_client_stands_in_and_another_after_it(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="riverui")

    def stood_in() -> list[str]:
        records = [record for record in caplog.records if "services that it lacks" in record.msg]
        return [str(record.args[1]) for record in records if isinstance(record.args, tuple)]

    await factory.leader(shop.connection, "go", expires_at=datetime.now(UTC) + HOUR)
    clients = {}
    for _ in range(3):
        client = await shop.start(limits=LIMITS, workflow_timer_poller_interval=OFTEN)
        clients[client.id] = client
    await wait_through(shop, client)
    await wait_through(shop, client)
    (first,) = stood_in()
    await clients.pop(first).stop()
    await wait_through(shop, next(iter(clients.values())))
    assert len(stood_in()) == 2
    assert stood_in()[1] in clients
    # The table of clients makes the difference, and an open transaction the choice.
    async with client.driver.transaction() as transaction:
        found = await ClientStore(transaction).client_other_leader(claim=True)
        assert found is not None
        assert (found.leader_id, found.claimed) == ("go", False)
        await shop.connection.execute(
            "update river_leader set leader_id = %s", [next(iter(clients))]
        )
        assert await ClientStore(transaction).client_other_leader() is None
