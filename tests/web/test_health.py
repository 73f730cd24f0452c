"""Health checks: River UI's addresses and answers, for anyone, telling nothing."""

from __future__ import annotations

import asyncio

import pytest
from starlette.applications import Starlette

from riverui import create_app
from riverui.engine.feature_list import plain_pilot
from riverui.errors import DatabaseUnavailable, LoginRefused, RiveruiError
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.http.context import AppOptions
from riverui.web.http.proxy import Prefix
from riverui.web.limits import DashboardLimits
from tests.web.stand_ins import DeadDriver, browser


def app(driver: DeadDriver) -> Starlette:
    return create_app(driver, basic_auth=("ada", "secret"))


@pytest.mark.parametrize("name", ["minimal", "complete"])
async def test_a_healthy_server_says_so(name: str) -> None:
    async with browser(app(DeadDriver(dead=False))) as client:
        answer = await client.get(f"/api/health-checks/{name}")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert (await client.head(f"/api/health-checks/{name}")).status_code == 200


@pytest.mark.parametrize(
    "error", [DatabaseUnavailable("10.0.0.7 says no"), LoginRefused("password of ada")]
)
async def test_without_its_database_it_lives_but_is_not_ready(
    error: RiveruiError, caplog: pytest.LogCaptureFixture
) -> None:
    driver = DeadDriver(error)
    async with browser(app(driver)) as client:
        assert (await client.get("/api/health-checks/minimal")).status_code == 200
        assert driver.pings == 0
        answer = await client.get("/api/health-checks/complete")
        told = {"message": "Unable to query database. Check logs for details."}
        assert (answer.status_code, answer.json()) == (503, told)
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert str(error) in caplog.text


async def test_a_database_that_hangs_is_not_waited_for() -> None:
    class Hanging(DeadDriver):
        async def ping(self) -> None:
            await asyncio.sleep(60)

    limits = DashboardLimits(probe_seconds=0.05)
    async with browser(
        build_app(
            Hanging(), SignIn(no_auth=True), pilot=plain_pilot(), options=AppOptions(limits=limits)
        )
    ) as client:
        assert (await client.get("/api/health-checks/complete")).status_code == 503


async def test_many_probes_ask_the_database_once() -> None:
    driver = DeadDriver(dead=False)
    async with browser(app(driver)) as client:
        answers = await asyncio.gather(
            *(client.get("/api/health-checks/complete") for _ in range(20))
        )
    assert {answer.status_code for answer in answers} == {200}
    assert driver.pings == 1


@pytest.mark.parametrize("name", ["other", "Minimal", "<script>"])
async def test_other_names_are_told_in_json(name: str) -> None:
    async with browser(app(DeadDriver())) as client:
        answer = await client.get(f"/api/health-checks/{name}")
        assert answer.status_code == 404
        assert answer.json() == {
            "message": f'Health check "{name}" not found. Use either `complete` or `minimal`.'
        }


async def test_they_live_below_the_prefix() -> None:
    async with browser(Prefix(app(DeadDriver()), "/river")) as client:
        assert (await client.get("/river/api/health-checks/minimal")).status_code == 200
        assert (await client.get("/api/health-checks/minimal")).status_code == 404
