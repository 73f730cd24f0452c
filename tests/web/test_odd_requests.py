"""Every route is sent what no program means to send: each answers in words, and none fails."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from psycopg import AsyncConnection
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from riverui import Client, ClientConfig, create_app
from riverui.errors import NotFound
from riverui.features.error_groups.reader import ERROR_GROUPS
from riverui.storage.interface import Driver
from riverui.web.api.endpoints import Endpoint
from riverui.web.assets import TEMPLATES
from riverui.web.auth.rights import Access
from riverui.web.http.routes import GuardedRoute
from tests import factory
from tests.web.stand_ins import DeadDriver, browser
from tests.web.test_routes import ENTRIES, POSTS, method, of_api, path

HALF = "\udc00"
"""Half a surrogate pair, which stands for no character."""
NOT_UNICODE = (r'"\ud800"', r'"a\uDC00\ud83d\ude00"', r'{"\ud800": 1}', f'"{HALF}"')
"""JSON of texts that are not Unicode; the last has the bytes of half a pair in it."""
DEEP = "[" * 100_000 + "]" * 100_000
ODD = (NOT_UNICODE[0], r'"\u0000"', "9" * 5_000, "-1e999", '"x"', "7", "true", "null", "[]", "{}")
ODD_TEXTS = (r'{"a": "\ud800"}', HALF, "\0", "9" * 5_000, DEEP)
FORM = {"content-type": "application/x-www-form-urlencoded"}
HEADERS = [
    "accept",
    "authorization",
    "content-type",
    "cookie",
    "host",
    "hx-current-url",
    "hx-request",
    "hx-target",
    "if-none-match",
    "origin",
    "referer",
    "user-agent",
    "x-forwarded-for",
    "x-request-id",
]
FIELDS = sorted(
    {
        name
        for template in TEMPLATES.rglob("*.html")
        for name in re.findall(r'\bname="(\w+)"', template.read_text(encoding="utf-8"))
    }
)
"""Fields of forms, whichever page they belong to."""


def sent_as_bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def bodies(entry: Endpoint) -> Iterator[str]:
    """Yield the JSON of each model that a route takes, with one field after the other odd."""
    for value in (*NOT_UNICODE, DEEP):
        yield value
        yield f'{{"unknown": {value}}}'
    for model in entry.description.body:
        made = model.example()
        example = {} if made is None else json.loads(msgspec.json.encode(made))
        for name in model.__struct_fields__:
            for value in ODD:
                body = json.dumps({**example, name: "PLACE", "others": ["PLACE"]})
                yield body.replace('"PLACE"', value)


def fields(entry: GuardedRoute) -> list[str]:
    """Return the fields that are named where a form is read."""
    module = inspect.getmodule(entry.endpoint)
    assert module is not None
    return [name for name in FIELDS if f'"{name}"' in inspect.getsource(module)]


class Walk:
    """Sends requests and notes those that were not answered in words."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._at = ""
        self._client = browser(self._asked)
        self.failures: list[str] = []
        self.sent = 0

    async def _asked(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the app answer at an address that no client's URL can say."""
        await self._app({**scope, "path": self._at or scope["path"]}, receive, send)

    async def send(self, entry: GuardedRoute, said: str, at: str = "", **given: Any) -> int:
        """Return the status of one answer. `at` is the address as a server decodes it."""
        self.sent += 1
        self._at = at
        try:
            answer = await self._client.request(method(entry), path(entry), **given)
        except Exception as error:
            self.note(entry, said, repr(error))
            return 500
        status = answer.status_code
        if (status >= 500 and status != 501) or (status >= 400 and not answer.text.strip()):
            self.note(entry, said, f"{status} {answer.text[-200:]}")
        if of_api(entry) and status >= 400:
            assert answer.json()["message"]
        return status

    def note(self, entry: GuardedRoute, said: str, found: str) -> None:
        """Note a failure."""
        self.failures.append(f"{method(entry)} {entry.path} {said[:150]!a}: {found}")

    def check(self) -> None:
        """Fail with what was noted."""
        assert self.sent > 100
        text = "\n".join(self.failures[:200])
        assert not self.failures, f"{len(self.failures)} of {self.sent} requests:\n{text}"


@pytest.fixture
async def walk(
    own_tables: None, driver: Driver, connection: AsyncConnection[dict[str, Any]]
) -> AsyncIterator[Walk]:
    """Yield a walk through a dashboard that has one of everything."""
    await factory.job(connection, "discarded")
    await factory.queue(connection)
    await connection.execute(
        "insert into riverui_dead_job (id, created_at, scheduled_at, attempt, max_attempts,"
        " priority, kind, queue, args, metadata, tags, state) select id, created_at, scheduled_at,"
        " attempt, max_attempts, priority, kind, queue, args, metadata, tags, 'discarded' from"
        " river_job"
    )
    await connection.execute("insert into riverui_periodic_job (id) values ('1')")
    await connection.execute("insert into riverui_workflow (id) values ('1')")
    app = create_app(Client(driver, ClientConfig()), no_auth=True)
    yield Walk(app)
    await app.state.dashboard.get(ERROR_GROUPS).close()
    await app.state.dashboard.figures.close()
    await app.state.dashboard.close()


async def test_bodies_of_the_api(walk: Walk) -> None:
    for entry in ENTRIES:
        if isinstance(entry, Endpoint) and method(entry) != "GET":
            for body in bodies(entry):
                status = await walk.send(entry, body, content=sent_as_bytes(body))
                if any(text in body for text in (*NOT_UNICODE, DEEP)) and status != 400:
                    walk.note(entry, body, f"{status}, not 400")
    walk.check()


async def test_forms(walk: Walk) -> None:
    for entry in POSTS:
        names = fields(entry)
        for text in ODD_TEXTS:
            whole = dict.fromkeys(names, sent_as_bytes(text))
            for given in (
                ({name: whole[name]} for name in names) if text == ODD_TEXTS[0] else [whole]
            ):
                body = urlencode({"confirmed": "1"} | given).encode()
                status = await walk.send(entry, f"{[*given]} {text}", content=body, headers=FORM)
                if given and text in (HALF, "\0") and status not in (400, 404):
                    walk.note(entry, f"{[*given]} {text}", f"{status}, not 400")
    walk.check()


async def test_addresses_and_headers(walk: Walk) -> None:
    odd = sent_as_bytes(HALF)
    for entry in ENTRIES:
        for text in (HALF, "\0", "\u202e") if entry.param_convertors else ():
            asked = path(entry, **dict.fromkeys(entry.param_convertors, text))
            status = await walk.send(entry, asked, asked)
            if text != "\u202e" and status != 400:
                walk.note(entry, asked, f"{status}, not 400")
    jobs = next(entry for entry in ENTRIES if entry.name == "jobs.index")
    headers = [(name.encode(), odd) for name in HEADERS]
    for given in (headers, *([pair] for pair in headers)):
        await walk.send(jobs, f"{given}", headers=given)
    walk.check()


@pytest.mark.parametrize("asked", ["/jobs", "/api/jobs"])
async def test_an_error_whose_words_cannot_be_sent_is_answered(asked: str) -> None:
    def refuse(connection: HTTPConnection) -> Access:
        raise NotFound(f"No such thing: {HALF}.")

    async with browser(create_app(DeadDriver(), authenticate=refuse)) as client:
        answer = await client.get(asked)
    assert answer.status_code == 404
    assert "No such thing: ?." in answer.text
