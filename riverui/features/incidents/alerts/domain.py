"""What is sent of an incident, when, and to where."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from riverui.domain.findings import Level
from riverui.domain.health import Cause
from riverui.domain.health.baseline import Subject
from riverui.errors import ConfigError
from riverui.features.incidents.domain import Incident

SHAPES = ("json", "slack", "pagerduty", "alertmanager")
"""The shapes of webhooks; `job` is a job of one's own."""
CLOSED = "closed"
"""The state of an incident that is over; that of an open one is its level."""
CLAIMED = timedelta(seconds=60)
"""How long nobody else sends an alert that is being sent: four times what that may take."""
REPEAT = timedelta(minutes=5)
"""How often Alertmanager is sent what goes on: it forgets alerts when it restarts."""
ENDS_AFTER = 4 * REPEAT
"""After how long without a repetition an alert of Alertmanager ends, as with Prometheus's."""
_FIRST_PAUSE = timedelta(seconds=15)
"""Pause after the first failed try; each further one is twice as long."""
_MAX_PAUSE = timedelta(minutes=10)
"""Longest pause between two tries."""


class Destination(Struct, frozen=True, kw_only=True):
    """Where alerts are sent: a webhook, or a queue in which a job is inserted."""

    shape: str
    url: str
    """The webhook's address without user and password; `kind@queue` of a job."""
    user: str = ""
    """The routing key of PagerDuty; else the user of basic authentication."""
    password: str = ""

    @property
    def id(self) -> str:
        """Return what names it in the table: the address may hold a secret."""
        return hashlib.sha256(f"{self.shape}+{self.url}+{self.user}".encode()).hexdigest()[:16]

    @property
    def words(self) -> str:
        """Return its shape and its host, which hold no secret."""
        return f"{self.shape} {self.url if self.shape == 'job' else urlsplit(self.url).netloc}"


class Alert(Struct, frozen=True, kw_only=True):
    """A change of an incident, as it is sent. Its texts are bounded."""

    id: str
    """The same in each try."""
    event: str
    """opened, reopened, worse, closed or test."""
    incident: str
    cause: str
    level: Level
    subject: Subject
    queue: str
    kind: str
    title: str
    headline: str
    opened_at: datetime
    ended_at: datetime | None
    url: str
    """The incident's page; empty if the dashboard's public address is not set."""
    environment: str


class AlertRecord(Struct, frozen=True, kw_only=True):
    """What one destination has been sent of an incident."""

    incident: str
    destination: str
    sent: str = ""
    """The state that was sent last; empty if none was."""
    wanted: str = ""
    """The state that is being sent; empty if none is."""
    number: int = 0
    """Alerts that were sent."""
    tries: int = 0
    """Tries to send `wanted`."""
    at: datetime | None = None
    """When the last alert was sent, or when the next try is due."""


class Silence(Struct, frozen=True, kw_only=True):
    """Incidents of which no alerts are sent: one incident, or all of a cause and a subject."""

    id: str
    incident: str = ""
    """Empty for all of its cause and subject."""
    cause: Cause = Cause.NONE
    subject: Subject = Subject()
    until: datetime
    made_at: datetime
    made_by: str = ""
    reason: str = ""

    def covers(self, incident: Incident) -> bool:
        """Return whether the incident is silenced, as long as the silence lasts."""
        return incident.id == self.incident if self.incident else incident.key == self.key

    @property
    def key(self) -> tuple[Cause, Subject]:
        """Return the cause and the subject."""
        return self.cause, self.subject


def destinations(webhooks: str, job_kind: str = "", job_queue: str = "") -> Sequence[Destination]:
    """Return where alerts are sent: `shape+https://…` addresses, separated by spaces or commas, and
    jobs. Raise ConfigError, without the address, if one is not valid.
    """
    found = [_webhook(text, n) for n, text in enumerate(re.split(r"[\s,]+", webhooks.strip()), 1)]
    if job_kind:
        found.append(Destination(shape="job", url=f"{job_kind}@{job_queue}"))
    return [each for each in found if each is not None]


def _webhook(text: str, number: int) -> Destination | None:
    if not text:
        return None
    shape, plus, address = text.partition("+")
    if not plus or ":" in shape:
        shape, address = "json", text
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        (user + password + address).encode("latin-1")
    except ValueError:
        valid, parts = False, SplitResult("", "", "", "", "")
    if shape not in SHAPES or not valid:
        shapes = ", ".join(SHAPES)
        raise ConfigError(
            f"alert webhook {number} is not valid: write it like slack+https://…, with one of"
            f" {shapes}"
        )
    if shape == "pagerduty" and not user:
        raise ConfigError(
            f"alert webhook {number} has no routing key: write it like"
            " pagerduty+https://KEY@events.pagerduty.com/v2/enqueue"
        )
    host = parts.netloc.rpartition("@")[2]
    url = parts._replace(netloc=host, fragment="").geturl()
    return Destination(shape=shape, url=url, user=user, password=password)


def due(
    incident: Incident, record: AlertRecord, *, now: datetime, least: Level, repeats: bool
) -> str:
    """Return the state of an incident to send: its level, or CLOSED; empty if there is none.

    The end is sent if the beginning was, or would have been had the destination answered.
    """
    level, sent = incident.level, record.sent
    if incident.closed_at is not None:
        state = CLOSED if sent not in ("", CLOSED) or (record.wanted and not sent) else ""
    elif level.badness < least.badness:
        state = ""
    elif sent in ("", CLOSED) or level.badness > Level(sent).badness:
        state = level.value
    elif repeats and record.at is not None and now - record.at >= REPEAT:
        state = sent
    else:
        state = ""
    waits = record.wanted == state and record.at is not None and now < record.at
    return "" if waits else state


def pause(tries: int) -> timedelta:
    """Return how long after so many failed tries the next one is due."""
    return min(_FIRST_PAUSE * 2.0 ** min(tries - 1, 10), _MAX_PAUSE)


def event(record: AlertRecord, state: str) -> str:
    """Return in a word what happened since the last alert."""
    if state == CLOSED:
        return CLOSED
    return {"": "opened", CLOSED: "reopened", state: "repeated"}.get(record.sent, "worse")


def body(alert: Alert, to: Destination, *, now: datetime) -> Any:
    """Return the JSON of an alert in the shape of its destination."""
    return _BODIES.get(to.shape, _json)(alert, to, now)


def _json(alert: Alert, to: Destination, now: datetime) -> Any:
    return alert


def _slack(alert: Alert, to: Destination, now: datetime) -> Any:
    emoji = ":white_check_mark:" if alert.event == CLOSED else _EMOJI[alert.level]
    where = f" ({_mrkdwn(alert.environment)})" if alert.environment else ""
    lines = [f"{emoji} *{_mrkdwn(alert.title)}*{where} – {alert.event}", _mrkdwn(alert.headline)]
    link = f"<{alert.url}|Open the incident>" if alert.url else ""
    return {"text": "\n".join(filter(None, [*lines, link]))}


def _pagerduty(alert: Alert, to: Destination, now: datetime) -> Any:
    event = {
        "routing_key": to.user,
        "event_action": "resolve" if alert.event == CLOSED else "trigger",
        "dedup_key": alert.incident,
    }
    if alert.event == CLOSED:
        return event
    details = {"headline": alert.headline, "queue": alert.queue, "kind": alert.kind}
    return event | {
        "client": "riverui",
        "client_url": alert.url,
        "links": [{"href": alert.url, "text": "Open the incident"}] if alert.url else [],
        "payload": {
            "summary": alert.title,
            "source": alert.environment or "riverui",
            "severity": _SEVERITIES[alert.level],
            "timestamp": alert.opened_at,
            "component": alert.queue or alert.kind,
            "class": alert.cause,
            "custom_details": details,
        },
    }


def _alertmanager(alert: Alert, to: Destination, now: datetime) -> Any:
    labels = {
        "alertname": "RiverIncident",
        "incident": alert.incident,
        "cause": alert.cause,
        "severity": _SEVERITIES[alert.level],
        "queue": alert.queue,
        "kind": alert.kind,
        "environment": alert.environment,
    }
    return [
        {
            # A label without a value counts as missing.
            "labels": {name: value for name, value in labels.items() if value},
            "annotations": {"summary": alert.title, "description": alert.headline},
            "startsAt": alert.opened_at,
            "endsAt": now if alert.event == CLOSED else now + ENDS_AFTER,
            "generatorURL": alert.url,
        }
    ]


def _mrkdwn(text: str) -> str:
    """Return text that links to nothing and mentions nobody, in Slack and Mattermost."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("@", "@\u200b")


_BODIES = {"slack": _slack, "pagerduty": _pagerduty, "alertmanager": _alertmanager}
_EMOJI = {Level.WARN: ":warning:", Level.CRITICAL: ":rotating_light:"}
_SEVERITIES = {Level.WARN: "warning", Level.CRITICAL: "critical"}
