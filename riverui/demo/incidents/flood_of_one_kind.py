"""One kind comes in such numbers that everything in its queue waits."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause

_SENT = timedelta(minutes=7)
"""How long ago the campaign began."""


def _past(past: Past) -> None:
    past.steady()
    past.wait("push_notification", 2_600, since=_SENT, until=timedelta(minutes=4))
    past.run("push_notification", 5, client=past.client("mailers"), since=past.ago(seconds=0.4))


INCIDENT = Incident(
    name="flood-of-one-kind",
    words="A campaign began 7 minutes ago and inserts push_notification jobs far faster than the"
    " workers of the queue mailers get them done.",
    cause=Cause.FLOOD,
    past=_past,
    orders={"push_notification": 30.0},
)
