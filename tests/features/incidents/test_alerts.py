"""Alerts: what of incidents is sent to other systems, in which shape, when and how often."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection

from riverui.domain.findings import Level
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject
from riverui.errors import ConfigError
from riverui.features.incidents.alerts.domain import (
    REPEAT,
    Silence,
    destinations,
    pause,
)
from riverui.features.incidents.domain import Incident
from riverui.features.incidents.store import IncidentStore
from riverui.features.incidents.watch import IncidentTimes, IncidentWatch
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from tests import factory
from tests.engine.conftest import until
from tests.features.incidents.conftest import Watches
from tests.features.incidents.receiver import CUT, Got, Receiver, receiving
from tests.operations import without_tables

T0 = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=20)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Run a receiver of alerts."""
    with receiving() as found:
        yield found


def incident(**fields: Any) -> Incident:
    return Incident(
        **{
            "id": "INCIDENT1",
            "cause": Cause.LATE,
            "subject": Subject("queue", "mail"),
            "level": Level.WARN,
            "title": "Queue mail is late.",
            "headline": "41 <b>jobs</b> wait & @channel <!here> 3 min.",
            "opened_at": T0,
            "found_at": T0,
            "seen_at": T0,
            **fields,
        }
    )


async def put(driver: Driver, **fields: Any) -> None:
    """Store the incident as it is now."""
    async with driver.autocommit() as executor:
        await IncidentStore(executor).incident_save(incident(**fields))


async def sent(
    watch: IncidentWatch, receiver: Receiver, now: datetime | None = None
) -> Sequence[Got]:
    """Send what is due, and return what arrived."""
    before = len(receiver.got)
    await watch.alerts.deliver(now)
    return receiver.got[before:]


async def test_each_change_is_sent_once_by_one_of_two_dashboards(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    hook = f"http://{receiver.address}/hook?a=b"
    watch, other = (
        watches(alert_webhook=hook, public_url="https://ops.example/river", env_name="prod")
        for _ in range(2)
    )
    await put(driver)
    (got,) = [*await sent(watch, receiver), *await sent(other, receiver)]
    assert got.path == "/hook?a=b"
    assert got.headers["Content-Type"] == "application/json"
    assert "webhook-signature" not in got.headers
    assert got.json == {
        "id": "INCIDENT1-1",
        "event": "opened",
        "incident": "INCIDENT1",
        "cause": "late",
        "level": "warn",
        "subject": {"what": "queue", "name": "mail"},
        "queue": "mail",
        "kind": "",
        "title": "Queue mail is late.",
        "headline": "41 <b>jobs</b> wait & @channel <!here> 3 min.",
        "opened_at": T0.isoformat().replace("+00:00", "Z"),
        "ended_at": None,
        "url": "https://ops.example/river/incidents/INCIDENT1",
        "environment": "prod",
    }
    assert await sent(watch, receiver) == []
    # Getting better changes nothing, getting worse does, once.
    for level, events in (("critical", ["worse"]), ("warn", []), ("critical", [])):
        await put(driver, level=Level(level))
        assert [each.json["event"] for each in await sent(other, receiver)] == events
    await put(driver, closed_at=T0 + MINUTE)
    (got,) = [*await sent(other, receiver), *await sent(watch, receiver)]
    assert (got.json["id"], got.json["event"], got.json["level"]) == (
        "INCIDENT1-3",
        "closed",
        "critical",
    )
    assert got.json["ended_at"] == got.json["opened_at"]
    await put(driver)
    (got,) = [*await sent(watch, receiver), *await sent(other, receiver)]
    assert (got.json["id"], got.json["event"]) == ("INCIDENT1-4", "reopened")


async def test_two_dashboards_at_the_same_moment_send_one(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    watch, other = (watches(alert_webhook=f"http://{receiver.address}") for _ in range(2))
    await put(driver)
    await asyncio.gather(watch.alerts.deliver(), other.alerts.deliver())
    assert len(receiver.got) == 1


@pytest.mark.parametrize("tables", [True, False], ids=["tables", "process"])
async def test_what_fails_is_sent_again_later(
    watches: Watches,
    driver: Driver,
    own_tables: None,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    tables: bool,
) -> None:
    through = driver if tables else without_tables(driver)
    hook = f"http://ops:s3cret@{receiver.address}/T0/secret-path"
    watch = watches(through, alert_webhook=hook)
    async with await watch.store(driver.autocommit) as store:
        await store.incident_save(incident())
    receiver.answers = [500, CUT, 307]
    now = datetime.now(UTC)
    ids = []
    for tries in (1, 2, 3):
        (got,) = await sent(watch, receiver, now)
        ids.append(got.json["id"])
        assert await sent(watch, receiver, now + pause(tries) - timedelta(seconds=1)) == []
        now += pause(tries)
        if tables:
            # A restart forgets nothing.
            watch = watches(alert_webhook=hook)
    (got,) = await sent(watch, receiver, now)
    assert {*ids, got.json["id"]} == {"INCIDENT1-1"}
    assert got.headers["Authorization"] == "Basic " + base64.b64encode(b"ops:s3cret").decode()
    assert await sent(watch, receiver, now + timedelta(hours=1)) == []
    assert [each.path for each in receiver.got] == ["/T0/secret-path"] * 4
    failures = [line for line in caplog.messages if "failed" in line]
    assert len(failures) == 3
    assert "it answered 500" in failures[0]
    assert not [line for line in caplog.messages if "secret" in line or "s3cret" in line]


async def test_one_that_is_over_before_it_could_be_sent_is_sent_as_over(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    watch = watches(alert_webhook=f"http://{receiver.address}")
    receiver.answers = [503]
    await put(driver)
    await sent(watch, receiver)
    await put(driver, closed_at=T0 + MINUTE)
    assert [got.json["event"] for got in await sent(watch, receiver)] == ["closed"]
    # What was over before there was anybody to send it to is not sent.
    await put(driver, id="INCIDENT2", closed_at=T0 + MINUTE)
    assert await sent(watch, receiver) == []


async def test_a_dead_destination_does_not_hold_up_the_others(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    with receiving() as gone:
        dead = gone.address
    hooks = f"http://{dead}, slack+http://{receiver.address}\npagerduty+http://KEY@{dead}/v2"
    watch = watches(alert_webhook=hooks)
    await put(driver)
    assert len(await sent(watch, receiver)) == 1
    assert await sent(watch, receiver, datetime.now(UTC) + MINUTE) == []


async def test_only_what_is_bad_enough_is_sent(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    watch = watches(alert_webhook=f"http://{receiver.address}", alert_level="critical")
    await put(driver)
    assert await sent(watch, receiver) == []
    await put(driver, level=Level.CRITICAL)
    assert [got.json["event"] for got in await sent(watch, receiver)] == ["opened"]


async def test_a_silenced_incident_sends_nothing_until_the_silence_ends(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    watch = watches(alert_webhook=f"http://{receiver.address}")
    await put(driver)
    now = datetime.now(UTC)

    def made(id: str, of: str = "", cause: Cause = Cause.LATE, subject: str = "mail") -> Silence:
        return Silence(
            id=id,
            incident=of,
            cause=cause,
            subject=Subject("queue", subject),
            until=now + MINUTE,
            made_at=now,
            made_by="ada",
            reason="known",
        )

    async with watch.alert_store() as store:
        for silence in (made("a", "INCIDENT1"), made("b")):
            await store.silence_insert(silence)
            assert await store.silence_list() == [silence]
            assert await sent(watch, receiver) == []
            assert await store.silence_end(silence.id)
            assert not await store.silence_end(silence.id)
        await store.silence_insert(made("c", cause=Cause.PAUSED))
        await store.silence_insert(made("d", subject="other"))
        await store.silence_insert(made("e", "INCIDENT2"))
    assert len(await sent(watch, receiver)) == 1
    # The end of what was sent is sent all the same: a pager would ring for ever.
    async with watch.alert_store() as store:
        await store.silence_insert(made("f"))
    await put(driver, closed_at=T0 + MINUTE)
    assert [got.json["event"] for got in await sent(watch, receiver)] == ["closed"]


@pytest.mark.parametrize("secret", ["whsec_" + base64.b64encode(b"k" * 24).decode(), "plain text"])
async def test_a_receiver_can_check_who_sent_it(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver, secret: str
) -> None:
    watch = watches(alert_webhook=f"json+http://{receiver.address}", alert_secret=secret)
    await put(driver)
    (got,) = await sent(watch, receiver)
    key = b"k" * 24 if secret.startswith("whsec_") else secret.encode()
    signed = b".".join(
        [got.headers[f"webhook-{name}"].encode() for name in ("id", "timestamp")] + [got.body]
    )
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(got.headers["webhook-timestamp"]) - datetime.now(UTC).timestamp()) < 60
    assert got.headers["webhook-id"] == got.json["id"]


async def test_slack(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    url = "https://ops.example"
    watch = watches(alert_webhook=f"slack+http://{receiver.address}", public_url=url)
    await put(driver, title="Queue \u202e<mail>\x01\n is late.")
    (got,) = await sent(watch, receiver)
    assert got.json == {
        "text": ":warning: *Queue \\u202e&lt;mail&gt;\\u0001 is late.* – opened\n"
        "41 &lt;b&gt;jobs&lt;/b&gt; wait &amp; @\u200bchannel &lt;!here&gt; 3 min.\n"
        "<https://ops.example/incidents/INCIDENT1|Open the incident>"
    }


async def test_pagerduty(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    watch = watches(alert_webhook=f"pagerduty+http://KEY@{receiver.address}/v2/enqueue")
    await put(driver, level=Level.CRITICAL)
    (got,) = await sent(watch, receiver)
    assert "Authorization" not in got.headers
    assert (got.path, got.json["routing_key"], got.json["dedup_key"]) == (
        "/v2/enqueue",
        "KEY",
        "INCIDENT1",
    )
    assert got.json["event_action"] == "trigger"
    payload = got.json["payload"]
    assert (payload["summary"], payload["severity"]) == ("Queue mail is late.", "critical")
    assert (payload["source"], payload["component"]) == ("riverui", "mail")
    await put(driver, closed_at=T0 + MINUTE)
    (got,) = await sent(watch, receiver)
    assert got.json == {"routing_key": "KEY", "event_action": "resolve", "dedup_key": "INCIDENT1"}


async def test_alertmanager_is_sent_what_goes_on_again_and_again(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    watch = watches(alert_webhook=f"alertmanager+http://{receiver.address}/api/v2/alerts")
    await put(driver)
    now = datetime.now(UTC)
    (first,) = await sent(watch, receiver, now)
    (alert,) = first.json
    assert alert["labels"] == {
        "alertname": "RiverIncident",
        "incident": "INCIDENT1",
        "cause": "late",
        "severity": "warning",
        "queue": "mail",
    }
    assert alert["annotations"]["summary"] == "Queue mail is late."
    assert datetime.fromisoformat(alert["startsAt"]) == T0
    assert datetime.fromisoformat(alert["endsAt"]) == now + timedelta(minutes=20)
    assert await sent(watch, receiver, now + REPEAT - timedelta(seconds=1)) == []
    (again,) = await sent(watch, receiver, now + REPEAT)
    assert again.json[0]["labels"] == alert["labels"]
    await put(driver, closed_at=T0 + MINUTE)
    (over,) = await sent(watch, receiver, now + REPEAT)
    assert over.json[0]["labels"] == alert["labels"]
    assert datetime.fromisoformat(over.json[0]["endsAt"]) == now + REPEAT


async def test_a_job_of_ones_own(
    watches: Watches, driver: Driver, own_tables: None, connection: AsyncConnection[Any]
) -> None:
    watch = watches(alert_job_kind="riverui_alert", alert_job_queue="ops")
    await put(driver)
    now = datetime.now(UTC)
    await watch.alerts.deliver(now)
    # As if it had been killed before it noted that.
    await connection.execute("update riverui_alert set sent = '', wanted = 'warn', number = 0")
    await watch.alerts.deliver(now + timedelta(hours=1))
    rows = await connection.execute("select kind, queue, priority, args from river_job")
    (job,) = await rows.fetchall()
    assert (job["kind"], job["queue"], job["priority"]) == ("riverui_alert", "ops", 1)
    assert (job["args"]["id"], job["args"]["event"]) == ("INCIDENT1-1", "opened")


async def test_texts_are_cut(
    watches: Watches, driver: Driver, own_tables: None, receiver: Receiver
) -> None:
    watch = watches(alert_webhook=f"http://{receiver.address}")
    await put(driver, title="x" * 1000, headline="y" * 2000)
    (got,) = await sent(watch, receiver)
    assert len(got.json["title"]) < 340
    assert len(got.json["headline"]) < 940


def test_addresses_that_are_not_valid_are_refused_without_being_shown() -> None:
    for wrong in (
        "ftp://host/secret",
        "teams+https://host/secret",
        "https:///secret",
        "http://host:99999/secret",
        "pagerduty+https://events.pagerduty.com/secret",
        "https://fine.example http://[secret",
    ):
        with pytest.raises(ConfigError) as error:
            DashboardConfig(alert_webhook=wrong)
        assert "secret" not in str(error.value)
    with pytest.raises(ConfigError):
        DashboardConfig(alert_level="info")
    with pytest.raises(ConfigError):
        DashboardConfig(alert_secret="whsec_*")
    with pytest.raises(ConfigError):
        DashboardConfig(public_url="ops.example")
    found = destinations("https://a/x,slack+http://b/T/secret\n", "riverui_alert", "ops")
    assert [each.words for each in found] == ["json a", "slack b", "job riverui_alert@ops"]


async def test_it_is_sent_in_the_background(
    watches: Watches,
    own_tables: None,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    connection: AsyncConnection[Any],
) -> None:
    caplog.set_level(logging.INFO, "riverui.incidents")
    await factory.queue(connection, "mail", paused_at=T0)
    await factory.job(connection, queue="mail", scheduled_at=T0)
    times = IncidentTimes(look=timedelta(0), look_again=timedelta(0))
    watch = watches(times=times, alert_webhook=f"http://{receiver.address}")
    watch.watch()
    await until(lambda: bool(receiver.got))
    await watch.close()
    (got,) = receiver.got
    assert got.json["title"] == "Queue mail is paused."
