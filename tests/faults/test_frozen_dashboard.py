"""A database that stands still, as on a machine that hangs: every page and report answers in time
and in words, and goes on once the database does.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import httpx2
from psycopg import AsyncConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from riverui.engine.feature_list import plain_pilot
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.admission import AdmissionLimits
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests import factory
from tests.faults.server import Server
from tests.web.stand_ins import browser
from tests.web.test_routes import ENTRIES, method, path

ANSWER_SECONDS = 7.0
"""What the dashboard of this test has in place of the usual ten."""
LATE = 2.0
"""Seconds that an answer may come later, on a machine that is busy with other tests."""
QUERIES = {
    "/api/autocomplete": "?facet=job_kind",
    "/api/pro/dead-letter-jobs/autocomplete": "?facet=job_kind",
    "/api/pro/producers": "?queue_name=default",
    "/api/progress": "?q=kind:test_kind",
}


def answered(app: ASGIApp, left: set[asyncio.Future[None]]) -> ASGIApp:
    """Return the app as a server runs it: whoever asked has the answer as soon as it was sent,
    whatever the app goes on with.
    """

    async def until_answered(scope: Scope, receive: Receive, send: Send) -> None:
        complete = asyncio.Event()

        async def pass_on(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                complete.set()

        running = asyncio.ensure_future(app(scope, receive, pass_on))
        left.add(running)
        sent = asyncio.create_task(complete.wait())
        await asyncio.wait({running, sent}, return_when=asyncio.FIRST_COMPLETED)
        sent.cancel()

    return until_answered


async def test_every_address_answers_in_time_and_in_words(
    server: Server, database: AsyncConnection[Any]
) -> None:
    assert DashboardLimits().answer_seconds == 10
    await factory.job(database, "running")
    await factory.queue(database)
    # A connection for each who asks: nobody is sent away because others wait.
    driver = connect(f"{server.url}&pool_max_conns=90")
    await migrate(driver, "up", line="riverui")
    app = build_app(
        driver,
        SignIn(no_auth=True),
        DashboardConfig(api_timeout=timedelta(seconds=3)),
        pilot=plain_pilot(),
        options=AppOptions(
            limits=DashboardLimits(
                admission=AdmissionLimits(working=1_000),
                answer_seconds=ANSWER_SECONDS,
                health_seconds=0,
            )
        ),
    )
    left: set[asyncio.Future[None]] = set()
    gets = [path(entry) for entry in ENTRIES if method(entry) == "GET"]
    gets = [asked + QUERIES.get(asked, "") for asked in gets] + ["/api/health-report?format=text"]
    async with browser(answered(app, left)) as client:
        usual = dict(zip(gets, await asyncio.gather(*map(client.get, gets)), strict=True))
        began = time.monotonic()
        took: dict[str, float] = {}

        async def ask(asked: str) -> httpx2.Response:
            answer = await client.get(asked)
            took[asked] = time.monotonic() - began
            return answer

        with server.frozen():
            found = dict(zip(gets, await asyncio.gather(*map(ask, gets)), strict=True))
        failures = [f"{at}: {s:.1f} s" for at, s in took.items() if s > ANSWER_SECONDS + LATE]
        for asked, answer in found.items():
            if answer.status_code == 503:
                words = ("The database", "database connection", "query database")
                if not any(each in answer.text for each in words):
                    failures.append(f"{asked}: {answer.text[:300]}")
            elif answer.status_code != usual[asked].status_code:
                failures.append(f"{asked}: {answer.status_code}")
        assert not failures, "\n".join(failures)
        assert sum(answer.status_code == 503 for answer in found.values()) > 30
        for asked in ("/", "/api/overview", "/workers", "/api/jobs"):
            assert (await client.get(asked)).status_code == 200, asked
    # What was cancelled ends with the silence, and nobody hears of it.
    assert not any(await asyncio.gather(*left, return_exceptions=True))
    await app.state.dashboard.close()
    await migrate(driver, "down", line="riverui", target_version=-1)
    await driver.close()
