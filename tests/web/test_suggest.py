"""Suggestions: the right ones for the place of the caret, and texts that can be searched."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection

from riverui.errors import QueryTimeout
from riverui.storage.interface import Driver
from riverui.web.search import query, suggestions as suggest
from riverui.web.search.suggestions import Option, Suggestions
from tests.cases import cases
from tests.factory import Make, job, queue
from tests.web.html import parse
from tests.web.stand_ins import DeadDriver


@pytest.fixture
async def suggestions(driver: Driver, connection: AsyncConnection[Any]) -> Suggestions:
    await job(
        connection,
        "completed",
        kind="mail_send",
        tags=["vip", "eu"],
        args={"customer": {"id": 1}, "n": 2},
    )
    await job(connection, "running", kind="ship", queue="tenant 1", args={"a:b": {"c d": 1}})
    await queue(connection, "mailers")
    return Suggestions(driver)


def inserts(options: tuple[Option, ...]) -> list[str]:
    return [option.insert for option in options]


async def ask(suggestions: Suggestions, text: str) -> list[str]:
    """Return the options at the `|` in the text."""
    caret = text.index("|")
    return inserts(await suggestions.get(text.replace("|", ""), caret))


async def test_options(suggestions: Suggestions) -> None:
    with cases() as case:
        for text, expected in (
            ("ki|", ["kind:"]),
            ("-ki|", ["-kind:"]),
            ("tag:x arg| queue:a", ["tag:x args. queue:a"]),
            ("kind:|", ["kind:mail_send ", "kind:ship "]),
            ("kind:MAIL|", ["kind:mail_send "]),
            ("kind:*ail*|", ["kind:mail_send "]),
            ("kind:ship,mai|", ["kind:ship,mail_send "]),
            ("-kind:sh| tag:a", ["-kind:ship tag:a"]),
            ("queue:ten|", ['queue:"tenant 1" ']),
            ('queue:"ten|', ['queue:"tenant 1" ']),
            ("queue:mail|", ["queue:mailers "]),
            ("tag:v|", ["tag:vip "]),
            ("worker:test|", ["worker:test_host_2026_11_21T09_00_00_000000 "]),
            ("state:run|", ["state:running "]),
            ("priority:|", ["priority:1 ", "priority:2 ", "priority:3 ", "priority:4 "]),
            ("args.cust|", ["args.customer.id:"]),
            ("args.b|", ['args."a:b"."c d":']),
            ("metadata.zzz|", []),
            ("args.customer.id:4|", []),
            ("error:x|", []),
            ("nothing_like_it|", []),
            ("mail|", ["kind:mail_send ", "queue:mailers "]),
            ("runn|", ["state:running "]),
        ):
            with case(text):
                assert await ask(suggestions, text) == expected


async def test_an_empty_box_offers_every_key_with_words(suggestions: Suggestions) -> None:
    options = await suggestions.get("", 0)
    assert len(options) == suggest.OPTIONS
    assert options[0] == Option(insert="kind:", label="kind:", hint=options[0].hint)
    assert all(option.hint for option in options)


async def test_every_finished_option_is_a_search_that_makes_sense(suggestions: Suggestions) -> None:
    now = datetime.now(UTC)
    for key in (
        "kind",
        "queue",
        "tag",
        "worker",
        "state",
        "priority",
        "attempt",
        "created",
        "scheduled",
    ):
        options = await suggestions.get(f"{key}:", len(key) + 1)
        assert options, key
        for option in options:
            assert not query.parse(option.insert, now=now).errors, option


async def test_texts_that_cannot_be_searched_get_none(suggestions: Suggestions) -> None:
    assert await suggestions.get("a" * 3000, 5) == ()
    assert await suggestions.get("kind:\0", 6) == ()


async def test_keystrokes_of_everybody_are_one_query() -> None:
    asked: list[str] = []

    class Slow(DeadDriver):
        def reading(self, *, timeout: timedelta | None = None) -> Any:
            asked.append("query")
            return super().reading(timeout=timeout)

    suggestions = Suggestions(Slow(QueryTimeout()))
    found = await asyncio.gather(
        *(suggestions.get(f"kind:{'mail'[:n]}", 5 + n) for n in (1, 2, 3, 4))
    )
    assert found == [(), (), (), ()]
    assert asked == ["query"]


async def test_the_answer_is_a_list_of_options(client: AsyncClient, make: Make) -> None:
    await make.job(kind="<b>bold</b>")
    await make.job(kind='quote"kind')
    answer = await client.get("/suggest", params={"q": "kind:b", "at": "6"})
    assert answer.status_code == 200
    assert "<b>" not in answer.text
    [option] = parse(answer.text).all("li", role="option")
    assert option.attributes["data-insert"] == "kind:<b>bold</b> "
    answer = await client.get("/suggest", params={"q": "kind:quote"})
    [option] = parse(answer.text).all("li", role="option")
    assert option.attributes["data-insert"] == 'kind:"quote\\"kind" '
    for at in ("-1", "x", "9" * 30, ""):
        assert (await client.get("/suggest", params={"q": "kind:b", "at": at})).status_code == 200
