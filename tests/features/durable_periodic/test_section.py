"""Durable periodic jobs on the page of periodic jobs, and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from psycopg import AsyncConnection

from riverui.domain.periodic import NextRun
from riverui.features.durable_periodic.domain import DurablePeriodicRow
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from tests.cases import cases
from tests.factory import Make
from tests.pro_tables import PRO_TABLES
from tests.web.api.test_openapi import validate
from tests.web.html import get, parse
from tests.web.test_periodic import come

Connection = AsyncConnection[dict[str, Any]]

PATH, API = "/periodic", "/api/pro/periodic-jobs"
SOON = datetime.now(UTC) + timedelta(hours=3)


async def keep(driver: Driver, *ids: str, at: datetime = SOON) -> None:
    async with driver.transaction() as transaction:
        storage = DurablePeriodicStore(transaction)
        await storage.durable_periodic_save([NextRun(each, at, None) for each in ids])
        await storage.durable_periodic_touch(dict.fromkeys(ids, "@every 1h"))


async def rows(driver: Driver) -> Sequence[DurablePeriodicRow]:
    async with driver.reading() as executor:
        return await DurablePeriodicStore(executor).durable_periodic_list(limit=100)


async def test_what_is_kept_is_shown(
    client: httpx2.AsyncClient, make: Make, driver: Driver, own_tables: None
) -> None:
    await come(make, "reports.hourly", 500, 440, 380)
    await keep(driver, "reports.hourly", "never.came")
    page = await get(client, PATH)
    names = [row.one("a", class_="mono").text for row in page.one("tbody").all("tr")]
    assert names == ["never.came", "reports.hourly"]
    assert "no job so far" in page.text
    # Its row has the next run, so no run is inferred to be missing.
    assert "none for" not in page.text
    assert page.text.count("@every 1h") == 2
    times = [
        row.one("td", class_="c-when", **{"data-label": "next"}).one("time").attributes["datetime"]
        for row in page.one("tbody").all("tr")
    ]
    assert [(each or "")[:16] for each in times] == [SOON.isoformat()[:16]] * 2


async def test_pausing_running_and_resuming(
    client: httpx2.AsyncClient, driver: Driver, own_tables: None
) -> None:
    await keep(driver, "nightly")
    for verb in ("pause", "run"):
        answer = await client.post(f"{PATH}/{verb}", data={"id": "nightly"})
        assert (answer.status_code, answer.headers["location"]) == (303, PATH)
    (row,) = await rows(driver)
    assert row.paused_at is not None
    assert row.run_requested_at is not None
    page = await get(client, PATH)
    assert "paused" in page.text
    assert "Resume" in page.text
    assert "changed" in page.text
    assert not [each for each in page.all("button") if each.text == "Pause"]
    await client.post(f"{PATH}/resume", data={"id": "nightly"})
    (row,) = await rows(driver)
    assert (row.paused_at, row.next_run_at) == (None, None)


async def test_another_schedule_is_asked_for(
    client: httpx2.AsyncClient, driver: Driver, own_tables: None
) -> None:
    await keep(driver, "nightly")
    asked = parse((await client.post(f"{PATH}/schedule", data={"id": "nightly"})).text)
    assert "Reschedule nightly?" in asked.text
    assert "@every 1h" in asked.text
    fields = {"id": "nightly", "schedule": "  */5 * * *   * "}
    assert (await client.post(f"{PATH}/schedule", data=fields)).status_code == 303
    (row,) = await rows(driver)
    assert (row.schedule, row.next_run_at) == ("*/5 * * * *", None)
    page = await get(client, PATH)
    assert "*/5 * * * *" in page.text
    assert "rescheduled" in page.text
    await client.post(f"{PATH}/schedule", data={"id": "nightly", "schedule": ""})
    assert [row.schedule for row in await rows(driver)] == [""]


async def test_a_schedule_that_makes_no_sense(
    client: httpx2.AsyncClient, driver: Driver, own_tables: None
) -> None:
    await keep(driver, "nightly")
    with cases() as case:
        for schedule in ("whenever", "* * * *", "0 " * 150, "*/5 * * * *\0"):
            with case(schedule[:20]):
                answer = await client.post(
                    f"{PATH}/schedule", data={"id": "nightly", "schedule": schedule}
                )
                assert 400 <= answer.status_code < 500
                assert [row.schedule for row in await rows(driver)] == [""]


async def test_what_cannot_be_changed(client: httpx2.AsyncClient, driver: Driver) -> None:
    answer = await client.post(f"{PATH}/pause", data={"id": "nightly"})
    assert answer.status_code == 400
    assert "the tables of riverui" in answer.text
    await migrate(driver, "up", line="riverui")
    for verb in ("pause", "schedule"):
        answer = await client.post(f"{PATH}/{verb}", data={"id": "none.such"})
        assert answer.status_code == 404


async def test_who_may_only_look_is_offered_nothing(
    reader: httpx2.AsyncClient, driver: Driver, own_tables: None
) -> None:
    await keep(driver, "nightly")
    page = await get(reader, PATH)
    assert "nightly" in page.text
    assert "Pause" not in page.text
    answer = await reader.post(f"{PATH}/pause", data={"id": "nightly"})
    assert answer.status_code == 403
    assert [row.paused_at for row in await rows(driver)] == [None]


async def test_river_uis_address_answers_ours_where_pros_table_is_missing(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver
) -> None:
    answer = await client.get(API)
    assert answer.status_code == 400
    assert answer.json()["message"] == "Durable periodic jobs need River Pro's migrations."


async def test_ours_in_river_uis_shape(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    await connection.execute(PRO_TABLES)
    await keep(driver, "b", "a", "stale", "unplanned")
    await connection.execute(
        "update riverui_periodic_job set updated_at = now() - interval '25 hours'"
        " where id = 'stale'"
    )
    await connection.execute(
        "update riverui_periodic_job set next_run_at = null where id = 'unplanned'"
    )
    found = (await client.get(API)).json()["data"]
    assert [row["id"] for row in found] == ["a", "b"]
    assert found[0].keys() == {"id", "created_at", "next_run_at", "updated_at"}
    features = (await client.get("/api/features")).json()
    assert features["extensions"]["durable_periodic_jobs"]
    # Where Pro's own table has some as well, both answer.
    await connection.execute(
        "insert into river_periodic_job (id, next_run_at) values ('ab', now() + interval '1 h')"
    )
    for limit, expected in ((100, ["a", "ab", "b"]), (2, ["a", "ab"])):
        found = (await client.get(f"{API}?limit={limit}")).json()["data"]
        assert [row["id"] for row in found] == expected


async def test_programs_look_after_them(
    client: httpx2.AsyncClient, driver: Driver, own_tables: None
) -> None:
    path = "/api/periodic-jobs"
    await keep(driver, "nightly", "a/b pause")
    listed = (await client.get(path)).json()
    validate("SeenPeriodicJobs", listed)
    assert listed["kept"]
    assert [row["id"] for row in listed["durable"]] == ["a/b pause", "nightly"]
    one = (await client.get(f"{path}/nightly")).json()
    validate("DurablePeriodicJob", one)
    assert (one["program_schedule"], one["schedule"]) == ("@every 1h", "")
    assert one["next_run_at"] == f"{SOON:%Y-%m-%dT%H:%M:%S.%f}".rstrip("0") + "Z"
    assert (await client.get(f"{path}/a%2Fb%20pause")).json()["id"] == "a/b pause"
    paused = (await client.post(f"{path}/nightly/pause")).json()
    assert paused["paused_at"] is not None
    assert (await client.post(f"{path}/nightly/resume")).json()["paused_at"] is None
    assert (await client.post(f"{path}/nightly/run")).json()["run_requested_at"] is not None
    changed = (await client.patch(f"{path}/nightly", json={"schedule": " 0  4 * * * "})).json()
    assert (changed["schedule"], changed["next_run_at"]) == ("0 4 * * *", None)
    for given in ({"schedule": "often"}, {"schedule": 7}, {}, {"schedule": "x" * 201}):
        answer = await client.patch(f"{path}/nightly", json=given)
        assert answer.status_code == 400, given
        assert answer.json()["message"]
    back = (await client.patch(f"{path}/nightly", json={"schedule": ""})).json()
    assert back["schedule"] == ""
    for status, method, address in (
        (404, "GET", "none"),
        (400, "GET", "%00"),
        (404, "GET", "x" * 3_000),
        (404, "POST", "none/pause"),
        (400, "POST", "%00/run"),
        (404, "POST", "none/resume"),
    ):
        answer = await client.request(method, f"{path}/{address}")
        assert answer.status_code == status, address
        assert len(answer.text) < 500


async def test_programs_without_the_table(client: httpx2.AsyncClient) -> None:
    listed = (await client.get("/api/periodic-jobs")).json()
    assert (listed["durable"], listed["kept"]) == ([], False)
    for status, answer in (
        (404, await client.get("/api/periodic-jobs/nightly")),
        (400, await client.post("/api/periodic-jobs/nightly/run")),
        (400, await client.patch("/api/periodic-jobs/nightly", json={"schedule": ""})),
    ):
        assert answer.status_code == status
        assert "the tables of riverui" in answer.json()["message"]


async def test_programs_that_may_only_look(
    reader: httpx2.AsyncClient, driver: Driver, own_tables: None
) -> None:
    await keep(driver, "nightly")
    path = "/api/periodic-jobs/nightly"
    assert (await reader.get(path)).status_code == 200
    assert (await reader.patch(path, json={"schedule": ""})).status_code == 403
    for verb in ("pause", "resume", "run"):
        assert (await reader.post(f"{path}/{verb}")).status_code == 403
