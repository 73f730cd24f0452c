"""How many requests are worked on at once, and what the others are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import httpx2
import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection
from psycopg.rows import DictRow
from starlette.applications import Starlette

from riverui.engine.feature_list import plain_pilot
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.admission import Admission, AdmissionLimits, Pulse
from riverui.web.http.context import AppOptions
from riverui.web.http.gate import ADMISSION
from riverui.web.limits import DashboardLimits
from tests.factory import Make
from tests.test_together import until
from tests.web.stand_ins import browser
from tests.web.test_refreshes import live

Row = AsyncConnection[DictRow]


def narrow(driver: Driver, **limits: Any) -> tuple[Starlette, Admission]:
    """Return a dashboard that takes on no more than this."""
    limited = DashboardLimits(admission=AdmissionLimits(**limits))
    app = build_app(
        driver, SignIn(no_auth=True), pilot=plain_pilot(), options=AppOptions(limits=limited)
    )
    return app, app.state.dashboard.get(ADMISSION)


@pytest.fixture
async def held(connection: Row) -> AsyncIterator[Callable[[], Any]]:
    """Lets nobody read queues until it is called."""
    await connection.execute("begin")
    await connection.execute("lock table river_queue in access exclusive mode")
    yield partial(connection.execute, "rollback")
    await connection.execute("rollback")


def _get(client: AsyncClient, path: str, **headers: str) -> asyncio.Task[httpx2.Response]:
    return asyncio.create_task(client.get(path, headers=headers))


async def test_those_for_whom_the_line_is_too_long_are_told_and_all_is_well_afterwards(
    driver: Driver, held: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    app, admission = narrow(driver, working=1, waiting=1)
    async with browser(app) as client:
        with caplog.at_level(logging.WARNING, logger="riverui.http"):
            working = _get(client, "/queues")
            await until(lambda: admission.working == 1)
            waiting = _get(client, "/help")
            await until(lambda: admission.waiting == 1)
            page = await client.get("/jobs")
            program = await client.get("/api/queues")
            region = await client.get("/queues", headers=live("section#queues-list"))
        for refused in (page, program, region):
            assert refused.status_code == 503
            assert 3 <= int(refused.headers["retry-after"]) <= 8
        assert "The dashboard is too busy" in page.text
        assert "Too many requests at once. Try again in a few seconds." in page.text
        assert 'data-region="error"' in page.text, "the page tries again by itself"
        assert program.json() == {
            "message": "Too many requests at once. Try again in a few seconds."
        }
        assert 'class="notice' in region.text
        assert region.headers["hx-retarget"] == "#notices"
        # Health and files are no work.
        assert (await client.get("/api/health-checks/minimal")).status_code == 200
        assert caplog.messages == ["too busy: requests are rejected"]
        await held()
        assert (await working).status_code == 200
        assert (await waiting).status_code == 200
        assert (await client.get("/jobs")).status_code == 200
        assert (admission.working, admission.waiting) == (0, 0)
    await app.state.dashboard.close()


async def test_waiting_has_a_limit(driver: Driver, held: Callable[[], Any]) -> None:
    app, admission = narrow(driver, working=1, longest_wait=timedelta(seconds=0.05))
    async with browser(app) as client:
        working = _get(client, "/queues")
        await until(lambda: admission.working == 1)
        assert (await client.get("/help")).status_code == 503
        await held()
        assert (await working).status_code == 200
        assert (admission.working, admission.waiting) == (0, 0)


async def test_a_place_that_is_left_goes_to_the_next(
    driver: Driver, held: Callable[[], Any]
) -> None:
    app, admission = narrow(driver, working=1)
    async with browser(app) as client:
        working = _get(client, "/queues")
        await until(lambda: admission.working == 1)
        leaving, staying = _get(client, "/help"), _get(client, "/help")
        await until(lambda: admission.waiting == 2)
        leaving.cancel()
        working.cancel()
        assert (await staying).status_code == 200
        await asyncio.gather(working, leaving, return_exceptions=True)
        assert (admission.working, admission.waiting) == (0, 0)


async def test_viewers_of_one_list_take_one_place(driver: Driver, held: Callable[[], Any]) -> None:
    app, admission = narrow(driver, working=1, waiting=0)
    async with browser(app) as client:
        asking = [_get(client, "/queues", **live("section#queues-list")) for _ in range(30)]
        await until(lambda: admission.working == 1)
        await held()
        assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200}
        assert admission.working == 0


async def test_an_export_on_its_way_takes_no_place(driver: Driver, make: Make) -> None:
    await make.job()
    app, admission = narrow(driver, working=1, waiting=0)
    places: list[int] = []

    async def watching(scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.body" and message.get("more_body"):
                places.append(admission.working)

        await app(scope, receive, noted)

    async with browser(watching) as client:
        assert (await client.get("/api/jobs/export")).status_code == 200
    assert places
    assert set(places) == {0}


async def test_people_come_before_what_regions_ask_for_by_themselves(driver: Driver) -> None:
    app, admission = narrow(driver, working=1, waiting=10, refreshes=2)
    place = await admission.enter()
    async with browser(app) as client:
        refreshes = [_get(client, f"/queues/{n}", **live("section#queue")) for n in range(4)]
        await until(lambda: sum(one.done() for one in refreshes) == 2)
        person = _get(client, "/help")
        await until(lambda: admission.waiting == 3)
        place.leave()
        assert (await person).status_code == 200
        statuses = [answer.status_code for answer in await asyncio.gather(*refreshes)]
        assert sorted(statuses) == [404, 404, 503, 503]


async def test_a_change_needs_no_place(driver: Driver, make: Make) -> None:
    job = await make.job()
    app, admission = narrow(driver, working=1, waiting=0)
    place = await admission.enter()
    async with browser(app) as client:
        assert (await client.get("/jobs")).status_code == 503
        done = await client.post("/jobs/cancel", data={"ids": str(job), "next": "/jobs"})
        assert done.status_code == 303
    place.leave()


async def test_places_are_given_in_the_order_of_the_line() -> None:
    admission = Admission(AdmissionLimits(working=1))
    first = await admission.enter()
    served: list[int] = []

    async def come(number: int) -> None:
        place = await admission.enter()
        served.append(number)
        place.leave()
        place.leave()

    line = [asyncio.create_task(come(number)) for number in range(5)]
    await until(lambda: admission.waiting == 5)
    first.leave()
    await asyncio.gather(*line)
    assert served == [0, 1, 2, 3, 4]
    assert admission.working == 0


async def test_regions_come_later_where_turns_are_late_and_are_sent_away_where_they_are_very_late(
    driver: Driver, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make.job()
    app, admission = narrow(driver)
    late = 0.0
    monkeypatch.setattr(admission.pulse, "late", lambda: late)
    async with browser(app) as client:

        async def ask(etag: str = "") -> httpx2.Response:
            known = {"If-None-Match": etag} if etag else {}
            return await client.get("/jobs", headers=live(more=known))

        quick = await ask()
        assert "retry-after" not in quick.headers
        late = 0.5
        for answer in (await ask(), await ask(quick.headers["etag"])):
            assert answer.status_code in (200, 304)
            assert 3 <= int(answer.headers["retry-after"]) <= 8
        late = 2.0
        for answer in (await ask(), await ask(quick.headers["etag"])):
            assert answer.status_code == 503
            assert 3 <= int(answer.headers["retry-after"]) <= 8
            assert "The dashboard is too busy" in answer.text
            assert answer.headers["hx-retarget"] == "#notices"
            assert "etag" not in answer.headers
        # People are not sent away.
        assert (await client.get("/jobs")).status_code == 200
        late = 0.0
        well = await ask(quick.headers["etag"])
        assert well.status_code == 304
        assert "retry-after" not in well.headers
    await app.state.dashboard.close()


async def test_the_pulse_reports_how_late_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, pulse = asyncio.get_running_loop(), Pulse()

    async def busy(seconds: float) -> None:
        end = loop.time() + seconds
        while loop.time() < end:
            pass
        await asyncio.sleep(0)

    assert pulse.late() == 0
    # Once may happen to anybody.
    await busy(0.5)
    assert pulse.late() == 0

    async def late() -> bool:
        await busy(0.5)
        return pulse.late() > 0.25

    await until(late)
    assert [message[:5] for message in caplog.messages] == ["slow:"]
    await until(lambda: not pulse.beats)
    assert pulse.late() == 0
