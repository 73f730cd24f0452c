"""Dashboards look at a database: one of them opens and closes its incidents."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject
from riverui.features.incidents.domain import ChangeKind, Incident
from riverui.features.incidents.store import IncidentStore
from riverui.features.incidents.watch import IncidentTimes, IncidentWatch
from riverui.storage.interface import Driver
from tests import factory
from tests.engine.conftest import until
from tests.features.incidents.conftest import Watches
from tests.operations import without_tables

Connection = AsyncConnection[Any]
PAUSED = (Cause.PAUSED, Subject("queue", "mail"))


@pytest.fixture
async def trouble(connection: Connection) -> None:
    """Pause a queue in which a job waits; another one is fine."""
    paused_at = datetime.now(UTC) - timedelta(minutes=38)
    await factory.queue(connection)
    await factory.queue(connection, "mail", paused_at=paused_at)
    await factory.job(connection, queue="mail", scheduled_at=datetime.now(UTC) - timedelta(hours=1))


async def stored(driver: Driver) -> Sequence[Incident]:
    """Return the open incidents of the table."""
    async with driver.reading() as executor:
        return await IncidentStore(executor).incident_open_list()


async def twice(watch: IncidentWatch) -> list[ChangeKind]:
    """Look twice, and return what happened."""
    return [change.kind for _ in range(2) for change in await watch.tick()]


async def test_an_incident_is_found_once_and_all_dashboards_show_it(
    watches: Watches, own_tables: None, trouble: None
) -> None:
    first, second = watches(), watches()
    assert await twice(first) == [ChangeKind.OPENED]
    assert await twice(second) == []
    for watch in (first, second):
        found = await watch.open()
        assert found.shared
        assert [incident.key for incident in found.incidents] == [PAUSED]
    (incident,) = found.incidents
    assert timedelta(minutes=37) < datetime.now(UTC) - incident.opened_at < timedelta(minutes=40)
    # What waits now has waited longer from minute to minute, and does still.
    waits = [value or 0.0 for _, value in incident.facts.minutes]
    assert waits == sorted(waits)
    assert 3_590 < waits[-1] < 3_660
    assert incident.facts.checks


async def test_another_dashboard_goes_on_where_one_stopped(
    watches: Watches, driver: Driver, own_tables: None, trouble: None, connection: Connection
) -> None:
    first, second = watches(), watches()
    await twice(first)
    assert await twice(second) == []
    first.watch()
    await first.close()
    await connection.execute("update river_queue set paused_at = null")
    await connection.execute("delete from river_job")
    await second.tick()
    (incident,) = await stored(driver)
    assert incident.good_since is not None
    assert incident.closed_at is None
    await connection.execute(
        "update riverui_incident set good_since = now() - interval '5 minutes 1 second'"
    )
    assert [change.kind for change in await second.tick()] == [ChangeKind.CLOSED]
    assert await stored(driver) == []


async def test_without_tables_each_process_has_its_own(
    watches: Watches, driver: Driver, trouble: None
) -> None:
    watch = watches(without_tables(driver))
    assert await twice(watch) == [ChangeKind.OPENED]
    found = await watch.open()
    assert not found.shared
    assert [incident.key for incident in found.incidents] == [PAUSED]


async def test_a_dashboard_that_may_not_write_looks_only_if_nobody_else_does(
    watches: Watches, own_tables: None, trouble: None, driver: Driver
) -> None:
    reader, writer = watches(read_only=True), watches()
    assert await twice(reader) == [ChangeKind.OPENED]
    assert not await reader.shared()
    assert await stored(driver) == []
    assert await twice(writer) == [ChangeKind.OPENED]
    assert await twice(reader) == []
    assert await reader.shared()


async def test_it_is_watched_in_the_background_and_said_in_the_log(
    watches: Watches, own_tables: None, trouble: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "riverui.incidents")
    watch = watches(times=IncidentTimes(look=timedelta(0), look_again=timedelta(0)))
    watch.watch()

    async def opened() -> bool:
        watch.expire()
        return bool((await watch.open()).incidents)

    await until(opened)
    (line,) = [line for line in caplog.messages if line.startswith("incident")]
    assert line.startswith("incident opened: Queue mail is paused. 1 job waits there")
    await watch.close()
