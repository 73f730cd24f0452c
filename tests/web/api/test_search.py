"""What the job list of the API can do beyond River UI's: search, order, cursors, several states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui import create_app
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests.cases import cases
from tests.factory import Make
from tests.web.api.conftest import Get
from tests.web.stand_ins import browser

Connection = AsyncConnection[dict[str, Any]]
AT = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)


async def walked(get: Get, **params: Any) -> list[int]:
    """Return the ids of every page."""
    found: list[int] = []
    while True:
        page = await get("jobs", **params)
        found += [row["id"] for row in page["data"]]
        if page["next_cursor"] is None:
            return found
        params["cursor"] = page["next_cursor"]


async def test_the_whole_search_grammar(get: Get, make: Make) -> None:
    a = await make.job(kind="mail_send", args={"customer": {"id": 42}}, tags=["vip"])
    b = await make.job("discarded", kind="mail_bounce")
    c = await make.job("running", kind="other")
    assert await walked(get, q="mail") == [b, a]
    assert await walked(get, q="args.customer.id:42") == [a]
    assert await walked(get, q='error:"it broke"') == [b]
    assert await walked(get, q="state:discarded,running -kind:other") == [b]
    assert await walked(get, q="mail", state="available") == [a]
    assert await walked(get, q="mail", kinds="mail_bounce") == [b]
    assert await walked(get, order="id") == [a, b, c]
    assert await walked(get, order="-id", tags="vip") == [a]
    assert set(await walked(get, state=["available", "running"])) == {a, c}
    assert await walked(get) == [c]
    for q in ("kind:", "created:yesterdayish", "x" * 3000):
        assert "not valid" in (await get("jobs", 400, q=q))["message"]
    assert "orders are" in (await get("jobs", 400, order="upwards"))["message"]


async def test_pages_go_on_where_the_one_before_ended(get: Get, make: Make) -> None:
    states = ("available", "running", "completed", "discarded", "scheduled")
    made = [
        await make.job(
            state,
            scheduled_at=AT + timedelta(minutes=n % 3),
            **({"attempted_at": AT + timedelta(minutes=n % 3)} if state == "running" else {}),
            **(
                {"finalized_at": AT + timedelta(minutes=n % 3)}
                if state in ("completed", "discarded")
                else {}
            ),
        )
        for n, state in enumerate(states * 2)
    ]
    with cases() as case:
        for order in ("id", "-id", "time", "-time"):
            for limit in (1, 3, 10):
                with case((order, limit)):
                    found = await walked(get, order=order, limit=limit)
                    assert sorted(found) == made
                    if order.endswith("id"):
                        assert found == (made if order == "id" else made[::-1])
                    assert found == await walked(get, order=order, limit=1000)


@pytest.mark.parametrize("state", ["running", "completed", "available", None])
async def test_river_uis_lists_have_cursors(get: Get, make: Make, state: str | None) -> None:
    made = [await make.job(state or "running") for _ in range(5)]
    params = {"state": state} if state else {}
    assert sorted(await walked(get, limit=2, **params)) == made
    assert await walked(get, limit=0, **params) == []


@pytest.mark.parametrize(
    "cursor", ["x", "1~", "~1", "2026-11-21T09:00:00.000000+00:00~1", "99999999999999999999"]
)
async def test_a_cursor_that_is_none_of_this_list(get: Get, cursor: str) -> None:
    await get("jobs", 400, order="id", cursor=cursor)


async def test_a_search_that_takes_too_long_gives_what_it_has(driver: Driver, make: Make) -> None:
    old = await make.job("completed", tags=["rare"], finalized_at=AT)
    for _ in range(20):
        await make.job("completed")
    config = DashboardConfig(search_window=5)
    app = create_app(driver, no_auth=True, config=config)
    # The driver keeps its own limit; only the search as a whole has no time left.
    object.__setattr__(config, "page_timeout", timedelta(0))
    async with browser(app) as client:
        asked = {"tags": "rare", "state": "completed", "limit": "2"}
        # River UI's own parameters have a time limit of their own.
        page = (await client.get("/api/jobs", params=asked)).json()
        assert [row["id"] for row in page["data"]] == [old]
        page = (await client.get("/api/jobs", params=asked | {"order": "-time"})).json()
        assert page["data"] == []
        found = []
        while page["next_cursor"]:
            more = {"order": "-time", "cursor": page["next_cursor"]}
            page = (await client.get("/api/jobs", params=asked | more)).json()
            found += [row["id"] for row in page["data"]]
        assert found == [old]
