"""The page of alerts: what is silenced, for how long and by whom, and a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx2 import AsyncClient

from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject
from riverui.features.incidents.alerts.domain import Silence
from riverui.features.incidents.alerts.store import AlertStore
from riverui.storage.interface import Driver
from riverui.web.auth.rights import READ_ONLY, Access
from tests.features.incidents.receiver import Receiver, receiving
from tests.features.incidents.test_alerts import incident, put
from tests.web.html import parse
from tests.web.stand_ins import dashboard

MINUTE = timedelta(minutes=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Run a receiver of alerts."""
    with receiving() as found:
        yield found


@pytest.fixture
async def ops(driver: Driver, receiver: Receiver) -> AsyncIterator[AsyncClient]:
    """Yield the browser of someone who may do everything, on a dashboard that sends alerts."""
    hooks = f"json+http://{receiver.address}/hook,slack+http://{receiver.address}/T0/secret"
    async with dashboard(driver, access=Access(user="ops"), alert_webhook=hooks) as client:
        yield client


@pytest.fixture
async def reader(driver: Driver) -> AsyncIterator[AsyncClient]:
    """Yield the browser of someone who may only look, on a dashboard that sends no alerts."""
    async with dashboard(driver, access=Access(user="ada", rights=READ_ONLY)) as client:
        yield client


async def silences(driver: Driver) -> Sequence[Silence]:
    """Return the silences that last."""
    async with driver.reading() as executor:
        return await AlertStore(executor).silence_list()


async def test_an_incident_is_silenced_and_the_silence_ended(
    ops: AsyncClient, driver: Driver, own_tables: None
) -> None:
    await put(driver)
    page = await ops.get("/alerts")
    assert "Queue mail is late." in page.text
    assert "Nothing is silenced." in page.text
    form: dict[str, Any] = {"incident": "INCIDENT1", "hours": "8", "reason": " <known> "}
    answer = await ops.post("/alerts/silence", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/alerts")
    (silence,) = await silences(driver)
    assert (silence.incident, silence.made_by, silence.reason) == ("INCIDENT1", "ops", "<known>")
    assert abs(silence.until - datetime.now(UTC) - timedelta(hours=8)) < MINUTE
    text = parse((await ops.get("/alerts")).text).text
    assert "Silenced; it ends in" in text
    assert "One incident: late, queue mail" in text
    assert "<known>" in text
    assert "silenced by ops; ends in" in parse((await ops.get("/incidents/INCIDENT1")).text).text
    await ops.post("/alerts/end", data={"id": silence.id})
    shown = (await ops.get("/incidents/INCIDENT1")).text
    assert 'href="/alerts#incident-INCIDENT1"' in shown
    assert await silences(driver) == []
    assert (await ops.post("/alerts/end", data={"id": silence.id})).status_code == 404


async def test_every_incident_of_a_kind_is_silenced_until_a_time(
    ops: AsyncClient, driver: Driver, own_tables: None
) -> None:
    await put(driver)
    until = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(days=2)
    form = {"incident": "INCIDENT1", "scope": "all", "hours": "1"}
    await ops.post("/alerts/silence", data=form | {"until": f"{until:%Y-%m-%dT%H:%M}"})
    (silence,) = await silences(driver)
    assert (silence.incident, silence.key) == ("", (Cause.LATE, Subject("queue", "mail")))
    assert silence.until == until
    assert silence.covers(incident(id="OTHER"))
    assert not silence.covers(incident(subject=Subject("queue", "other")))


async def test_what_is_no_end_is_refused(
    ops: AsyncClient, driver: Driver, own_tables: None
) -> None:
    await put(driver)
    for form in ({}, {"hours": "x"}, {"hours": "0"}, {"hours": "9" * 30}, {"until": "9999-01-01"}):
        answer = await ops.post("/alerts/silence", data={"incident": "INCIDENT1", **form})
        assert answer.status_code == 400
    answer = await ops.post("/alerts/silence", data={"incident": "other", "hours": "1"})
    assert answer.status_code == 404
    assert await silences(driver) == []


async def test_the_api_silences_and_the_timeline_says_so(
    ops: AsyncClient, reader: AsyncClient, driver: Driver, own_tables: None
) -> None:
    await put(driver)
    until = (datetime.now(UTC) + timedelta(hours=2)).replace(microsecond=0)
    asked = {"incident": "INCIDENT1", "until": until.isoformat(), "every": True, "reason": "known"}
    assert (await reader.post("/api/silences", json=asked)).status_code == 403
    made = (await ops.post("/api/silences", json=asked)).json()["silence"]
    wanted = {"incident": "", "cause": "late", "subject_is": "queue", "subject": "mail"}
    wanted |= {"until": f"{until:%Y-%m-%dT%H:%M:%SZ}", "made_by": "ops", "reason": "known"}
    assert {name: made[name] for name in wanted} == wanted
    assert (await reader.get("/api/silences")).json() == {"data": [made]}
    (event,) = [
        each
        for each in (await reader.get("/api/timeline")).json()["data"]
        if each["url"] == "/alerts"
    ]
    assert event["words"] == f"Alerts silenced until {until:%d %b %H:%M} UTC: late mail"
    for refused, status in (
        ({"until": "2020-01-01T00:00:00Z"}, 400),
        ({"until": "tomorrow"}, 400),
        ({"incident": "other"}, 404),
    ):
        assert (await ops.post("/api/silences", json=asked | refused)).status_code == status
    address = f"/api/silences/{made['id']}"
    assert (await reader.delete(address)).status_code == 403
    assert (await ops.delete(address)).json() == {"data": []}
    assert (await ops.delete(address)).status_code == 404
    assert "Alerts silenced until" in (await reader.get("/timeline")).text


async def test_a_test_alert_says_what_became_of_it(ops: AsyncClient, receiver: Receiver) -> None:
    page = (await ops.get("/alerts")).text
    assert f"slack {receiver.address}" in page
    assert "secret" not in page
    receiver.answers = [200, 200]
    await ops.post("/alerts/test", data={"send": "1"})
    assert "Test alert sent" in (await ops.get("/alerts")).text
    assert {got.path for got in receiver.got} == {"/hook", "/T0/secret"}
    receiver.answers = [403, 403]
    await ops.post("/alerts/test", data={"send": "1"})
    text = (await ops.get("/alerts")).text
    assert f"json {receiver.address}: it answered 403." in text
    assert "secret" not in text


async def test_rights_and_origins_are_checked(
    reader: AsyncClient, ops: AsyncClient, receiver: Receiver
) -> None:
    assert (await reader.get("/alerts")).status_code == 200
    away = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    for path in ("test", "silence", "end"):
        assert (await reader.post(f"/alerts/{path}", data={})).status_code == 403
        assert (await ops.post(f"/alerts/{path}", data={}, headers=away)).status_code == 403
    assert receiver.got == []
    assert "RIVERUI_ALERT_WEBHOOK" in (await reader.get("/alerts")).text
