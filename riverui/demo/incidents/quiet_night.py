"""Hardly anything happens, and a third of it fails."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause


def _past(past: Past) -> None:
    for _ in past.done(
        "cleanup_sessions", 10, since=timedelta(minutes=70), until=timedelta(minutes=3)
    ):
        pass
    for _ in past.fail(
        "webhook_delivery",
        4,
        since=timedelta(minutes=11),
        until=timedelta(minutes=2),
        error="UpstreamError: POST https://hooks.example/orders: 503 Service Unavailable",
    ):
        pass


INCIDENT = Incident(
    name="quiet-night",
    words="One job in seven minutes, and four failures of one webhook: too little to call anything"
    " unusual.",
    cause=Cause.NONE,
    past=_past,
    per_second=0.003,
)
