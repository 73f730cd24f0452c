"""Marks in the API: made once, listed, and errors without their table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from riverui import create_app
from riverui.domain.marks import Mark
from riverui.features.marks.reader import Marks
from riverui.features.marks.store import MarkInsertParams, MarkStore
from riverui.storage.interface import Driver
from riverui.storage.migrations import migrate
from riverui.testing import MemoryDatabase
from riverui.web.auth.rights import READ_ONLY, Access
from tests.cases import cases
from tests.web.api.conftest import Get
from tests.web.api.test_openapi import validate
from tests.web.stand_ins import DeadDriver, browser, dashboard

NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=2)
"""Of the day before yesterday."""


@pytest.fixture
async def ci(driver: Driver) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client of the API with a name."""
    app = create_app(driver, authenticate=lambda connection: Access(user="ci <b>"))
    async with browser(app, base_url="http://river.test/api/") as client:
        yield client
    await app.state.dashboard.close()


def written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


async def test_a_mark_is_made_once_and_listed(own_tables: None, ci: httpx2.AsyncClient) -> None:
    at = (NOON + timedelta(seconds=30)).astimezone().isoformat()
    body = {"label": " v1.4.2 ", "url": "https://git.example/v1.4.2", "release": "9f3c", "at": at}
    first = await ci.post("marks", json=body)
    assert first.status_code == 200, first.text
    validate("MarkAnswer", first.json())
    mark = {
        "at": written(NOON),
        "label": "v1.4.2",
        "release": "9f3c",
        "url": "https://git.example/v1.4.2",
        "user": "ci <b>",
    }
    assert first.json() == {"mark": mark, "made": True}
    again = await ci.post("marks", json={"label": "v1.4.2", "at": at})
    assert again.json() == {"mark": mark, "made": False}

    now = (await ci.post("marks", json={"label": "now"})).json()["mark"]
    listed = (await ci.get("marks")).json()
    validate("Marks", listed)
    assert listed == {"data": [now, mark]}
    for params, expected in (
        ({"limit": 1}, [now]),
        ({"until": written(NOON + timedelta(hours=1))}, [mark]),
        ({"since": written(NOON + timedelta(minutes=1))}, [now]),
        ({"since": written(NOON), "until": written(NOON)}, []),
    ):
        assert (await ci.get("marks", params=params)).json() == {"data": expected}


async def test_what_is_no_mark(own_tables: None, ci: httpx2.AsyncClient) -> None:
    with cases() as case:
        for body, words in (
            ({}, "`label` is missing"),
            ({"label": "  "}, "A mark needs a label"),
            ({"label": "x" * 201}, "at most 200 characters"),
            ({"label": "a\u0000b"}, "control characters"),
            ({"label": "a\nb"}, "control characters"),
            ({"label": "a", "release": 7}, "`release` must be text"),
            ({"label": "a", "release": "y" * 201}, "at most 200 characters"),
            ({"label": "a", "at": "2026-11-21T09:00:00"}, "a time with a time zone"),
            ({"label": "a", "at": "0001-01-01T00:00:00+01:00"}, "does not exist in UTC"),
            ({"label": "a", "at": "2001-01-01T00:00:00Z"}, "older than 400 days"),
            ({"label": "a", "at": "2999-01-01T00:00:00Z"}, "further ahead"),
            ({"label": "a", "url": "javascript:alert(1)"}, "must begin with https://"),
            ({"label": "a", "url": "https://x/" + "y" * 2000}, "at most 2,000"),
            ({"label": "a", "url": "https://x/<script>"}, "must begin with https://"),
        ):
            with case((str(body)[:80], words)):
                answer = await ci.post("marks", json=body)
                assert answer.status_code == 400, answer.text
                assert words in answer.json()["message"]
                assert (await ci.get("marks")).json() == {"data": []}


async def test_a_list_that_makes_no_sense(own_tables: None, ci: httpx2.AsyncClient) -> None:
    with cases() as case:
        for query in ("since=yesterday", "until=2026-11-21", "before=1", "limit=x"):
            with case(query):
                assert (await ci.get(f"marks?{query}")).status_code == 400


async def test_who_may_not_mark(own_tables: None, driver: Driver) -> None:
    app = create_app(driver, authenticate=lambda connection: Access(user="ada", rights=READ_ONLY))
    async with browser(app, base_url="http://river.test/api/") as client:
        assert (await client.post("marks", json={"label": "v1"})).status_code == 403
        assert (await client.get("marks")).json() == {"data": []}


async def test_a_mark_in_a_sqlite_file() -> None:
    async with dashboard(MemoryDatabase()) as client:
        answer = await client.post("/api/marks", json={"label": "v1"})
        assert answer.status_code == 200, answer.text
        assert [mark["label"] for mark in (await client.get("/api/marks")).json()["data"]] == ["v1"]


async def test_without_the_table_it_says_what_makes_it(ci: httpx2.AsyncClient, get: Get) -> None:
    answer = await ci.post("marks", json={"label": "v1"})
    assert answer.status_code == 501
    assert "the tables of riverui" in answer.json()["message"]
    assert "`riverui migrate-up --line riverui`" in answer.json()["message"]
    assert await get("marks") == {"data": []}


class TestReader:
    """What charts get."""

    async def read(self, marks: Marks) -> list[Mark]:
        day = timedelta(days=1)
        return list(await marks.read(NOON - day, NOON + day))

    async def test_they_come_in_order_and_are_believed_for_seconds(
        self, own_tables: None, driver: Driver, ci: httpx2.AsyncClient
    ) -> None:
        clock = [0.0]
        marks = Marks(driver, clock=lambda: clock[0])
        assert await self.read(marks) == []
        for label, hours in (("v2", 1), ("v1", 0), ("early", -25)):
            at = written(NOON + timedelta(hours=hours))
            await ci.post("marks", json={"label": label, "at": at})
        clock[0] = 4.9
        assert await self.read(marks) == []
        clock[0] = 5.0
        assert [mark.label for mark in await self.read(marks)] == ["v1", "v2"]

    async def test_a_mark_made_in_this_process_is_seen_at_once(
        self, own_tables: None, driver: Driver, ci: httpx2.AsyncClient
    ) -> None:
        marks = Marks(driver, clock=lambda: 0.0)
        assert await self.read(marks) == []
        await ci.post("marks", json={"label": "v1", "at": written(NOON)})
        marks.expire()
        assert [mark.label for mark in await self.read(marks)] == ["v1"]

    async def test_without_table_or_database_no_marks_are_read(self, driver: Driver) -> None:
        clock = [0.0]
        marks = Marks(driver, clock=lambda: clock[0])
        assert await self.read(marks) == []
        assert await self.read(Marks(DeadDriver())) == []
        # The table is found once it has been created.
        await migrate(driver, "up", line="riverui")
        async with driver.transaction() as db:
            params = MarkInsertParams(label="v1", at=NOON)
            await MarkStore(db).mark_insert(params, within=timedelta(0))
        clock[0] = 30.0
        assert [mark.label for mark in await self.read(marks)] == ["v1"]
