"""Incidents and the lease in their tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from riverui.domain.findings import Level, Link, Result
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.time import FIRST
from riverui.features.incidents.alerts.domain import AlertRecord, Silence
from riverui.features.incidents.alerts.store import AlertStore
from riverui.features.incidents.domain import Deed, Incident, IncidentFacts, RuledOut
from riverui.features.incidents.store import (
    MAX_DEEDS,
    IncidentsInProcess,
    IncidentStore,
    Place,
    open_incidents,
)
from riverui.storage.interface import Driver
from tests.factory import Make
from tests.features.both import SqliteMake, database, driver, driver_url, file, make

__all__ = ["database", "driver", "driver_url", "file", "make"]

T0 = datetime(2026, 11, 23, 18, 39, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def incident(number: int = 1, **given: Any) -> Incident:
    """Return an incident that began so many minutes after the first one."""
    at = T0 + number * MINUTE
    fields: dict[str, Any] = {
        "id": f"incident{number}",
        "cause": Cause.DEPLOY,
        "subject": Subject("kind", "email_send"),
        "level": Level.CRITICAL,
        "title": "email_send is failing.",
        "headline": "77 % of its attempts fail.",
        "opened_at": at,
        "found_at": at + MINUTE,
        "seen_at": at + MINUTE,
    }
    return Incident(**fields | given)


WHOLE = incident(
    good_since=T0 + 5 * MINUTE,
    facts=IncidentFacts(
        check="failures",
        detail="TypeError: unsupported operand …",
        link=Link(label="See what failed", page="jobs", kind="email_send"),
        baseline=Baseline(before=T0, minutes=45.0, failed=7.5, wait=timedelta(seconds=1.2)),
        minutes=((29_000_000, None), (29_000_001, 0.77)),
        checks=(RuledOut("served", "Queues are served", Result.PASSED, "Jobs are taken."),),
    ),
)


@pytest.mark.parametrize("kept", ["table", "process"])
async def test_what_is_saved_is_there_again(driver: Driver, own_tables: None, kept: str) -> None:
    in_process = IncidentsInProcess() if kept == "process" else None
    async with open_incidents(driver.autocommit, in_process) as store:
        await store.incident_save(WHOLE)
        assert await store.incident_get(WHOLE.id) == WHOLE
        noted = await store.incident_note(WHOLE.id, "Rolled back.", user="ada")
        assert noted is not None
        assert (noted.note, noted.noted_by) == ("Rolled back.", "ada")
        await store.incident_save(replace(WHOLE, level=Level.WARN, seen_at=T0 + 9 * MINUTE))
        again = await store.incident_get(WHOLE.id)
        assert again == replace(noted, level=Level.WARN, seen_at=T0 + 9 * MINUTE)
        assert await store.incident_get("other") is None
        assert await store.incident_note("other", "", user="") is None


@pytest.mark.parametrize("kept", ["table", "process"])
async def test_lists_are_by_the_beginning(driver: Driver, own_tables: None, kept: str) -> None:
    in_process = IncidentsInProcess() if kept == "process" else None
    async with open_incidents(driver.autocommit, in_process) as store:
        for n in range(1, 7):
            closed = {"closed_at": T0 + (10 + n) * MINUTE} if n % 2 else {}
            await store.incident_save(incident(n, **closed))
        opened = await store.incident_open_list()
        assert [each.id for each in opened] == ["incident6", "incident4", "incident2"]
        page = await store.incident_list(since=FIRST, limit=2)
        assert [each.id for each in page] == ["incident6", "incident5"]
        place = Place(page[-1].opened_at, page[-1].id)
        page = await store.incident_list(since=FIRST, limit=2, before=place)
        assert [each.id for each in page] == ["incident4", "incident3"]
        page = await store.incident_list(since=T0 + 14 * MINUTE, limit=9)
        assert [each.id for each in page] == ["incident6", "incident5", "incident4", "incident2"]


@pytest.mark.parametrize("kept", ["table", "process"])
async def test_what_people_do_is_kept_with_what_is_open(
    driver: Driver, own_tables: None, kept: str
) -> None:
    in_process = IncidentsInProcess() if kept == "process" else None
    deeds = [Deed(T0, "ada", "Queue mail resumed"), Deed(T0 + MINUTE, "", "2 jobs retried")]
    async with open_incidents(driver.autocommit, in_process) as store:
        await store.incident_save(incident(1))
        await store.incident_save(incident(2, closed_at=T0))
        for deed in deeds:
            await store.incident_deed([deed])
        await store.incident_save(incident(1))
        one, two = await store.incident_get("incident1"), await store.incident_get("incident2")
        assert (one and one.deeds, two and two.deeds) == (tuple(deeds), ())
        await store.incident_deed(deeds[:1] * MAX_DEEDS)
        await store.incident_deed(deeds)
        one = await store.incident_get("incident1")
        assert one is not None
        assert len(one.deeds) == MAX_DEEDS + 2


async def test_one_dashboard_at_a_time_holds_the_lease(
    driver: Driver, own_tables: None, make: Make | SqliteMake
) -> None:
    async def taken(holder: str) -> bool:
        async with driver.autocommit() as executor:
            return await IncidentStore(executor).lease_take(holder)

    async with driver.autocommit() as executor:
        store = IncidentStore(executor)
        assert not await store.lease_held()
        assert [await taken("a"), await taken("b"), await taken("a")] == [True, False, True]
        assert await store.lease_held()
        await store.lease_release("b")
        assert not await taken("b")
        await store.lease_release("a")
        assert await taken("b")
        over = datetime.now(UTC) - timedelta(seconds=1)
        await make.execute("update riverui_lease set held_until = %s", [over])
        assert not await store.lease_held()
        assert await taken("a")


async def test_old_ones_are_deleted_and_odd_ones_are_read(
    driver: Driver, own_tables: None, make: Make | SqliteMake
) -> None:
    async with driver.autocommit() as executor:
        store = IncidentStore(executor)
        for n in (1, 2, 3):
            closed = {"closed_at": T0 + n * MINUTE} if n < 3 else {}
            await store.incident_save(incident(n, **closed))
        assert await store.incident_delete_before(T0 + 2 * MINUTE, limit=10) == 1
        await make.execute(
            "update riverui_incident set cause = 'later', facts = '{\"minutes\": 3}', deeds = '[7]'"
        )
        found = await store.incident_get("incident3")
        assert found is not None
        assert (found.cause, found.facts, found.deeds) == (Cause.NONE, IncidentFacts(), ())


async def test_alerts_and_silences(driver: Driver, own_tables: None) -> None:
    async with driver.transaction() as transaction:
        await IncidentStore(transaction).incident_save(incident())
        store = AlertStore(transaction)
        new = AlertRecord(incident="incident1", destination="chat")
        first = replace(new, wanted="opened", number=1, at=T0)
        assert await store.alert_save(new, first)
        assert not await store.alert_save(new, replace(first, tries=1))
        assert await store.alert_save(first, replace(first, tries=1))
        assert not await store.alert_save(first, replace(first, incident="none"))
        assert list(await store.alert_list(["incident1", "x"])) == [replace(first, tries=1)]
        assert list(await store.alert_list([])) == []
        until = datetime.now(UTC).replace(microsecond=0) + MINUTE
        silence = Silence(
            id="s", cause=Cause.DEPLOY, subject=Subject("kind", "a"), until=until, made_at=T0
        )
        await store.silence_insert(silence)
        assert list(await store.silence_list()) == [silence]
        assert await store.silence_end("s")
        assert not await store.silence_end("s")
        assert list(await store.silence_list()) == []
        assert [each.id for each in await store.silence_list(since=T0)] == ["s"]
    async with driver.autocommit() as executor:
        await IncidentStore(executor).incident_save(incident(closed_at=T0))
        assert await IncidentStore(executor).incident_delete_before(T0 + MINUTE, limit=10) == 1
        assert list(await AlertStore(executor).alert_list(["incident1"])) == []
