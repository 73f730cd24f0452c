"""Somebody paused every queue for a release, and forgot to resume them."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.demo.shop import QUEUES
from riverui.domain.health import Cause

_PAUSED = timedelta(minutes=14)
"""How long ago: as long as a release takes that went well."""


def _past(past: Past) -> None:
    past.steady(until=_PAUSED)
    past.paused = {queue.name: past.now - _PAUSED for queue in QUEUES}
    for kind, count in (("email_send", 220), ("webhook_delivery", 200), ("fraud_check", 60)):
        past.wait(kind, count, since=_PAUSED)


INCIDENT = Incident(
    name="all-paused",
    words="All queues were paused for a release 14 minutes ago, and nobody has resumed them.",
    cause=Cause.PAUSED,
    past=_past,
)
