"""The palette: what is found, who is offered what, and how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection

from riverui import Access
from riverui.errors import QueryTimeout
from riverui.storage.interface import Driver
from riverui.web.sections.palette import MAX_ENTRIES
from tests.factory import Make
from tests.web.html import parse
from tests.web.stand_ins import DeadDriver, dashboard
from tests.workflows import workflow

Headers = Callable[..., dict[str, str]]


async def found(client: AsyncClient, text: str, headers: dict[str, str]) -> list[tuple[str, str]]:
    """Return the labels and addresses of the entries for a text."""
    answer = await client.get("/palette", params={"q": text}, headers=headers)
    assert answer.status_code == 200, answer.text
    options = parse(answer.text).all("a", role="option")
    return [(option.all("span")[0].text, option.attributes["href"]) for option in options]


@pytest.mark.usefixtures("own_tables")
async def test_pages_names_and_ids_are_found_by_who_may_see_them(
    driver: Driver,
    client: AsyncClient,
    connection: AsyncConnection[Any],
    make: Make,
    htmx: Headers,
) -> None:
    job = await make.job(kind="order_<b>mail", queue="orders")
    await make.queue("orders")
    await workflow(connection, {"a": ("running", ())}, id="w1", name="Order 42")
    asked = htmx("palette-list")
    assert await found(client, "order", asked) == [
        ("orders", "/queues/orders"),
        ("order_<b>mail", "/kinds/order_%3Cb%3Email"),
        ("Order 42", "/workflows/w1"),
        ("Search jobs", "/jobs?q=order"),
    ]
    assert (await found(client, f"#{job}", asked))[0] == (str(job), f"/jobs/{job}")
    assert (await found(client, "disc", asked))[0] == ("Discarded jobs", "/jobs?state=discarded")
    assert (await found(client, "WORKF", asked))[0] == ("Workflows", "/workflows")
    few = {
        "queues.read": [("orders", "/queues/orders")],
        "jobs.read": [("Order 42", "/workflows/w1"), ("Search jobs", "/jobs?q=order")],
    }
    for right, entries in few.items():
        async with dashboard(driver, access=Access(rights=frozenset({right}))) as viewer:
            assert await found(viewer, "order", asked) == entries
            pages = {label for label, _ in await found(viewer, "", asked)}
            assert "Kinds" not in pages
            assert ("Queues" in pages) is (right == "queues.read")


async def test_entries_are_few_whatever_there_is(
    client: AsyncClient, make: Make, htmx: Headers
) -> None:
    for n in range(30):
        await make.job(kind=f"{'mail' * 30}_{n:02}")
        await make.queue(f"mail_{n:02}")
    for text in ("mail", "a", ""):
        assert 0 < len(await found(client, text, htmx("palette-list"))) <= MAX_ENTRIES
    answer = await client.get("/palette", params={"q": "mail"}, headers=htmx("palette-list"))
    assert len(answer.content) < 12_000
    for text in ("m" * 201, "%", "9" * 30):
        entries = await found(client, text, htmx("palette-list"))
        assert {label for label, _ in entries} <= {"Search jobs"}


async def test_pages_are_found_while_the_database_does_not_answer(htmx: Headers) -> None:
    async with dashboard(DeadDriver(QueryTimeout())) as client:
        assert await found(client, "que", htmx("palette-list")) == [
            ("Queues", "/queues"),
            ("Search jobs", "/jobs?q=que"),
        ]
