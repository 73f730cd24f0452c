"""Objectives of queues: on the page of a queue, in the API and for Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection

from riverui.domain.figures import Figures, Window
from riverui.engine.feature_list import plain_pilot
from riverui.storage.interface import Driver
from riverui.web.app import build_app
from riverui.web.auth.sign_in import SignIn
from riverui.web.config import DashboardConfig
from riverui.web.http.context import AppOptions
from riverui.web.limits import DashboardLimits
from tests import factory
from tests.web.html import parse
from tests.web.made_figures import MadeFigures, figures, tally
from tests.web.stand_ins import browser

SLO = "mail=99.9% < 5s, other=95% < 1m"


def made(window: Window, queue: str, kind: str) -> Figures:
    """Return one late job of a hundred in each column of mail; of 90 days, five are known."""
    late, known = tally(99), 5 if window.name == "90d" else 10**6
    if queue == "mail":
        late.merge(tally(1, wait=60))
    return figures(window, lambda n: late if n >= window.columns - known else None)


@pytest.fixture
async def client(
    driver: Driver, own_tables: None, connection: AsyncConnection[Any]
) -> AsyncIterator[AsyncClient]:
    """Yield a browser for a dashboard with objectives."""
    await factory.queue(connection, "mail")
    await factory.queue(connection, "plain")
    app = build_app(
        driver,
        SignIn(no_auth=True),
        DashboardConfig(slo=SLO),
        pilot=plain_pilot(),
        options=AppOptions(limits=DashboardLimits(health_seconds=0.0)),
    )
    reader = MadeFigures(make=made)
    reader.put_into(app.state.dashboard)
    async with browser(app) as client:
        yield client
    await app.state.dashboard.close()


async def test_a_queue_says_how_well_it_does(client: AsyncClient) -> None:
    text = parse((await client.get("/queues/mail")).text).text
    assert "Objective: 99.9 % of jobs start within 5 s." in text
    assert "99 % did in the last hour, 99 % in 7 days, ? in 30 days." in text
    assert "of jobs start within" not in (await client.get("/queues/plain")).text


async def test_programs_are_answered_the_same(client: AsyncClient) -> None:
    mail, other = (await client.get("/api/slo")).json()["data"]
    assert (mail["queue"], mail["target"], mail["within_seconds"]) == ("mail", 0.999, 5.0)
    assert mail["good"] == {"1h": pytest.approx(0.99), "7d": pytest.approx(0.99), "30d": None}
    assert mail["burn_rates"].keys() == {"5m", "30m", "1h", "6h"}
    assert mail["burn_rates"]["1h"] == pytest.approx(10)
    assert other["good"]["1h"] == 1
    metrics = (await client.get("/metrics")).text
    assert 'riverui_slo_target{queue="mail"} 0.999' in metrics
    assert 'riverui_slo_good{queue="other",window="7d"} 1.0' in metrics
    assert 'riverui_slo_good{queue="mail",window="30d"}' not in metrics
    assert 'riverui_slo_burn_rate{queue="mail",window="6h"} 10.0' in metrics
