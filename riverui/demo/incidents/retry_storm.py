"""A partner was away for a while; all jobs that failed meanwhile come back at the same time."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause
from riverui.domain.jobs import JobState

_AWAY = timedelta(minutes=42)
"""How long ago the partner was away first: their retries come due together."""
_BACK = timedelta(minutes=26)
"""How long ago it came back: further than what counts as now."""
_DUE = timedelta(minutes=5)
"""How long ago the retries came due."""


def _past(past: Past) -> None:
    past.steady()
    failed = past.fail(
        "webhook_delivery",
        1_800,
        since=_AWAY,
        until=_BACK,
        error="UpstreamError: POST https://hooks.example/orders: 503 Service Unavailable",
    )
    for row in failed:
        row |= {"state": JobState.AVAILABLE, "scheduled_at": past.now - _DUE}
    past.run("webhook_delivery", 8, client=past.client("webhooks"), since=past.ago(seconds=0.7))


INCIDENT = Incident(
    name="retry-storm",
    words="A partner was away for a quarter of an hour. The 1,800 webhooks that failed meanwhile"
    " have come due at the same time, and new ones wait behind them.",
    cause=Cause.RETRY_STORM,
    past=_past,
)
