"""Sends alerts: each once, by one dashboard, with retries that survive a restart."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from riverui import __version__
from riverui.actions.new_jobs import NewJob, NewJobUnique, insert
from riverui.domain.findings import Level
from riverui.domain.health.baseline import Subject
from riverui.domain.text import plain
from riverui.domain.ulid import ulid
from riverui.errors import DatabaseError, JobRefused
from riverui.features.incidents.alerts.domain import (
    CLAIMED,
    CLOSED,
    Alert,
    AlertRecord,
    Destination,
    body,
    destinations,
    due,
    event,
    pause,
)
from riverui.features.incidents.alerts.store import AlertsInProcess, AlertStore
from riverui.features.incidents.domain import Incident
from riverui.web.http.cancelling import cancel_all, is_running
from riverui.web.http.context import Dashboard

log = logging.getLogger("riverui.alerts")

_TIMEOUT = 10.0
"""Seconds for each step of a request: connecting, sending, waiting for the answer."""
_LONGEST = 15.0
"""Seconds for a whole request."""
_GRACE = 2.0
"""Seconds that a stopping dashboard waits for an alert that is being sent."""
_TITLE, _HEADLINE, _NAME = 300, 900, 200
"""Most characters of texts: those of PagerDuty's summary are 1,024, of Slack's text 4,000."""

Stores = Callable[[], AbstractAsyncContextManager[AlertStore | AlertsInProcess]]
Incidents = Callable[[], Awaitable[Sequence[Incident]]]


class AlertSender:
    """Sends the alerts of one dashboard. Which of several dashboards sends one is decided in the
    table, before it is sent.
    """

    def __init__(self, board: Dashboard, store: Stores, incidents: Incidents) -> None:
        self._board, self._store, self._incidents = board, store, incidents
        config = board.config
        self._least = Level(config.alert_level)
        self.destinations = destinations(
            config.alert_webhook, config.alert_job_kind, config.alert_job_queue
        )
        self._sending: asyncio.Task[None] | None = None

    def push(self) -> None:
        """Send what is due in the background, unless that is being done."""
        if self.destinations and not is_running(self._sending):
            self._sending = asyncio.create_task(self._push())

    async def close(self) -> None:
        """Stop, after the alert that is being sent if it takes no longer than a moment."""
        task, self._sending = self._sending, None
        if is_running(task):
            await asyncio.wait([task], timeout=_GRACE)
            await cancel_all([task])

    async def deliver(self, now: datetime | None = None) -> None:
        """Send what is due. Raises the database's errors."""
        now, incidents = now or datetime.now(UTC), await self._incidents()
        async with self._store() as store:
            records = await store.alert_list([incident.id for incident in incidents])
            silences = await store.silence_list()
        loud = [
            incident
            for incident in incidents
            if incident.closed_at or not any(silence.covers(incident) for silence in silences)
        ]
        by_key = {(record.incident, record.destination): record for record in records}
        async with asyncio.TaskGroup() as group:
            for to in self.destinations:
                fresh = (AlertRecord(incident=each.id, destination=to.id) for each in loud)
                known = [by_key.get((each.incident, each.destination), each) for each in fresh]
                group.create_task(self._deliver(to, zip(loud, known, strict=True), now))

    async def test(self) -> Sequence[tuple[Destination, str]]:
        """Send a test alert to every destination, and return how each of them answered."""
        now = datetime.now(UTC)
        alert = Alert(
            id=f"test-{ulid(now)}",
            event="test",
            incident="riverui-test",
            cause="test",
            level=Level.WARN,
            subject=Subject(),
            queue="",
            kind="",
            title="Test alert from riverui.",
            headline="It was sent from the dashboard. Nothing is wrong.",
            opened_at=now,
            ended_at=None,
            url=self._board.config.public_url,
            environment=self._board.config.env_name,
        )
        answers = await asyncio.gather(*(self._send(to, alert, now) for to in self.destinations))
        return list(zip(self.destinations, answers, strict=True))

    async def _push(self) -> None:
        try:
            await self.deliver()
        except* DatabaseError as errors:
            log.warning("alerts could not be sent: %s", errors.exceptions[0])
        except* Exception:
            log.exception("sending alerts failed")

    async def _deliver(
        self, to: Destination, known: Iterable[tuple[Incident, AlertRecord]], now: datetime
    ) -> None:
        """Send what is due to a destination, until it fails."""
        repeats = to.shape == "alertmanager"
        for incident, record in known:
            state = due(incident, record, now=now, least=self._least, repeats=repeats)
            if not state:
                continue
            tries = record.tries + 1 if record.wanted == state else 1
            claim = replace(record, wanted=state, tries=tries, at=now + CLAIMED)
            async with self._store() as store:
                if not await store.alert_save(record, claim):
                    continue
            failure = await self._send(to, self._alert(incident, record, state), now)
            if failure:
                log.warning("alert to %s failed: %s", to.words, failure)
                after = replace(claim, at=now + pause(tries))
            else:
                number = record.number + 1
                after = replace(claim, sent=state, wanted="", number=number, tries=0, at=now)
            async with self._store() as store:
                await store.alert_save(claim, after)
            if failure:
                return

    def _alert(self, incident: Incident, record: AlertRecord, state: str) -> Alert:
        config = self._board.config
        what, name = incident.subject.what, incident.subject.name
        return Alert(
            id=f"{incident.id}-{record.number + 1}",
            event=event(record, state),
            incident=incident.id,
            cause=incident.cause.value,
            level=Level((record.sent or incident.level) if state == CLOSED else state),
            subject=Subject(what, _line(name, _NAME)),
            queue=_line(incident.queue, _NAME),
            kind=_line(incident.kind, _NAME),
            title=_line(incident.title, _TITLE),
            headline=_line(incident.headline, _HEADLINE),
            opened_at=incident.opened_at,
            ended_at=incident.ended_at,
            url=f"{config.public_url.rstrip('/')}/incidents/{incident.id}"
            if config.public_url
            else "",
            environment=config.env_name,
        )

    async def _send(self, to: Destination, alert: Alert, now: datetime) -> str:
        """Send an alert; return why it failed, or an empty text."""
        data = msgspec.json.encode(body(alert, to, now=now))
        if to.shape == "job":
            return await self._insert(to, alert, data)
        headers = {"Content-Type": "application/json", "User-Agent": f"riverui/{__version__}"}
        if to.shape == "json" and self._board.config.alert_secret:
            headers |= signed(self._board.config.alert_secret, alert.id, now, data)
        if to.user and to.shape != "pagerduty":
            basic = base64.b64encode(f"{to.user}:{to.password}".encode()).decode()
            headers["Authorization"] = f"Basic {basic}"
        return await post(to.url, data, headers)

    async def _insert(self, to: Destination, alert: Alert, data: bytes) -> str:
        kind, _, queue = to.url.partition("@")
        if self._board.inserter is None:
            return "this dashboard cannot insert jobs"
        job = NewJob(
            kind=kind,
            args=data.decode(),
            queue=queue,
            priority=1,
            unique=NewJobUnique(by_args=("id",)),
        )
        try:
            await insert(self._board.inserter, job, user="")
        except (DatabaseError, JobRefused) as error:
            return str(error)
        return ""


def _line(text: str, most: int) -> str:
    """Return text on one line, with hidden characters escaped, cut to so many characters."""
    return " ".join(plain(text, most).split())


def signed(secret: str, id: str, at: datetime, data: bytes) -> dict[str, str]:
    """Return the headers by which the receiver checks who sent a request, and when: those of
    Standard Webhooks.
    """
    key = secret.encode()
    if secret.startswith("whsec_"):
        key = base64.b64decode(secret.removeprefix("whsec_"))
    seconds = str(int(at.timestamp()))
    text = b".".join([id.encode(), seconds.encode(), data])
    signature = base64.b64encode(hmac.digest(key, text, hashlib.sha256)).decode()
    return {
        "webhook-id": id,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{signature}",
    }


async def post(url: str, data: bytes, headers: dict[str, str]) -> str:
    """Post data; return why that failed, without the address, or an empty text. A redirect is a
    failure.
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT)

    def send() -> str:
        path = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
        connection.request("POST", path, data, headers)
        status = connection.getresponse().status
        return "" if 200 <= status < 300 else f"it answered {status}"

    try:
        return await asyncio.wait_for(asyncio.to_thread(send), _LONGEST)
    except TimeoutError:
        return "it did not answer in time"
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else ""
        return reason or type(error).__name__
    finally:
        with suppress(OSError):
            # The thread may still wait for the answer.
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
