"""Actions on all matching dead letters: previewed, then carried out as operations."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette

from riverui.features.operations.runner import OPERATIONS
from riverui.storage.interface import Driver
from tests.factory import job
from tests.features.dead_letters.test_section import Connection, dead, left
from tests.operations import until_operation
from tests.web.html import Element, parse

PATH = "/dead-letters"


async def preview(client: httpx2.AsyncClient, query: str, status: int = 200) -> Element:
    answer = await client.get(f"{PATH}/bulk?{query}")
    assert answer.status_code == status, answer.text
    return parse(answer.text)


async def start(client: httpx2.AsyncClient, page: Element, verb: str, **more: str) -> str:
    """Start what a preview offers, wait for its end, and return its address."""
    token = page.one("input", name="token").attributes["value"] or ""
    answer = await client.post(f"{PATH}/bulk/{verb}", data={"token": token, **more})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


async def ended(client: httpx2.AsyncClient, address: str) -> dict[str, Any]:
    """Return the operation once it has ended."""
    return await until_operation(client, f"/api{address}")


async def states(connection: AsyncConnection[Any]) -> dict[int, str]:
    rows = await connection.execute("select id, state::text as state from river_job")
    return {row["id"]: row["state"] for row in await rows.fetchall()}


@pytest.fixture
async def letters(driver: Driver, connection: Connection, own_tables: None) -> dict[str, int]:
    return {
        "mail": await dead(connection, driver, 'Mailbox "full" *', kind="mail", queue="a"),
        "slow": await dead(connection, driver, "timed out", kind="mail", queue="a"),
        "report": await dead(connection, driver, "timed out", kind="report", queue="b"),
    }


async def test_all_matching_are_retried(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, letters: dict[str, int]
) -> None:
    listed = parse((await client.get(f"{PATH}?kind=mail")).text)
    link = next(each for each in listed.all("a") if each.text.strip() == "Retry all…")
    page = parse((await client.get(str(link.attributes["href"]))).text)
    assert "Retry 2 dead letters?" in page.text
    assert "kind:mail" in page.text
    later = await dead(connection, driver, "boom", kind="mail")
    address = await start(client, page, "retry")
    found = await ended(client, address)
    assert (found["status"], found["changed"], found["verb"]) == ("done", 2, "retry_dead_letters")
    assert await states(connection) == {
        letters["mail"]: "available",
        letters["slow"]: "available",
    }
    # Dead letters after the preview are not changed.
    assert await left(connection) == [letters["report"], later]
    shown = parse((await client.get(address)).text)
    assert "Retry dead letters" in shown.text
    back = next(each for each in shown.all("a") if "Show the dead letters" in each.text)
    assert back.attributes["href"] == f"{PATH}?kind=mail"
    assert "Retry dead letters" in (await client.get("/operations")).text


async def test_all_matching_an_error_are_deleted(
    client: httpx2.AsyncClient, connection: Connection, letters: dict[str, int]
) -> None:
    page = await preview(client, "verb=delete&queue=a&match=%22FULL%22+*")
    assert "Delete 1 dead letter?" in page.text
    assert "cannot be undone" in page.text
    found = await ended(client, await start(client, page, "delete"))
    assert (found["changed"], found["skipped"]) == (1, {})
    assert await left(connection) == [letters["slow"], letters["report"]]
    assert await states(connection) == {}


async def test_more_than_one_batch_and_some_in_the_way(
    client: httpx2.AsyncClient, connection: Connection, driver: Driver, own_tables: None
) -> None:
    unique: dict[str, Any] = {"unique_key": b"\x05", "unique_states": "10000001"}
    blocked = await dead(connection, driver, **unique)
    await job(connection, "available", **unique)
    await connection.execute(
        "insert into riverui_dead_job (id, created_at, scheduled_at, attempt, max_attempts,"
        " priority, kind, queue, state, args, metadata, tags, died_at)"
        " select 10000 + n, now(), now(), 1, 1, 1, 'k', 'q', 'discarded', '{}', '{}', '{}', now()"
        " from generate_series(1, 2500) n"
    )
    page = await preview(client, "verb=retry")
    assert "Retry 2,501 dead letters?" in page.text
    assert "every dead letter" in page.text
    found = await ended(client, await start(client, page, "retry"))
    assert (found["changed"], found["skipped"]) == (2500, {"unique_conflict": 1})
    assert await left(connection) == [blocked]
    assert list((await states(connection)).values()).count("available") == 2501


async def test_another_dashboard_goes_on(
    app: Starlette, client: httpx2.AsyncClient, connection: Connection, letters: dict[str, int]
) -> None:
    page = await preview(client, "verb=retry")
    address = await start(client, page, "retry", per_minute="1")
    await until_operation(client, f"/api{address}", lambda found: found["changed"] > 0)
    await app.state.dashboard.get(OPERATIONS).close()
    await connection.execute("update riverui_operation set pace = '{}'")
    found = await ended(client, address)
    assert (found["status"], found["changed"]) == ("done", 3)
    assert await left(connection) == []


async def test_previews_that_make_no_sense(
    client: httpx2.AsyncClient, reader: httpx2.AsyncClient, own_tables: None
) -> None:
    nothing = await preview(client, "verb=retry&kind=none")
    assert "Nothing matches." in nothing.text
    assert not nothing.one("input", name="token").attributes["value"]
    await preview(client, "verb=cancel", 400)
    await preview(client, "verb=retry&status=x", 400)
    await preview(reader, "verb=retry", 403)
    for verb in ("retry", "delete"):
        assert (await client.post(f"{PATH}/bulk/{verb}", data={"token": "x"})).status_code == 400
        assert (await reader.post(f"{PATH}/bulk/{verb}", data={"token": "x"})).status_code == 403


async def test_without_the_table(client: httpx2.AsyncClient) -> None:
    page = await preview(client, "verb=retry", 400)
    assert "the tables of riverui" in page.text
