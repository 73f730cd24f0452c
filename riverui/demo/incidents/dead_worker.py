"""A worker process was killed, and its jobs still count as running."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause

_KILLED = timedelta(minutes=12)
"""How long ago: longer than the report doubts a client, and far from the hour after which River
rescues.
"""


def _past(past: Past) -> None:
    past.steady()
    gone = past.client("webhooks", 2)
    for kind, count in (("webhook_delivery", 5), ("email_send", 3), ("payment_capture", 1)):
        past.run(kind, count, client=gone, since=past.now - _KILLED)


INCIDENT = Incident(
    name="dead-worker",
    words="A worker process was killed 12 minutes ago. The nine jobs that it held still count as"
    " running; the other workers go on.",
    cause=Cause.LOST_CLIENT,
    past=_past,
    loses=True,
)
