"""Every worker has ended, and jobs go on coming."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause

_ENDED = timedelta(minutes=6)
"""How long ago the last worker ended: too short for the leader's absence to matter by itself."""


def _past(past: Past) -> None:
    past.steady(until=_ENDED)
    for kind, count in (("email_send", 100), ("webhook_delivery", 90), ("image_resize", 36)):
        past.wait(kind, count, since=_ENDED)


INCIDENT = Incident(
    name="nobody-works",
    words="All workers ended 6 minutes ago (a bad rollout, or out of memory). Customers go on"
    " ordering.",
    cause=Cause.NOBODY_WORKS,
    past=_past,
    works=False,
    leads=False,
)
