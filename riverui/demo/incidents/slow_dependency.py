"""A service that one kind of job asks has become slow, and its jobs hold every slot."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past, Trouble
from riverui.demo.shop import KINDS
from riverui.domain.health import Cause

_SLOW = timedelta(minutes=9)
"""How long ago the service became slow: the queue has been behind for most of it."""
_SECONDS = 55.0
"""How long a check takes since: just below the minute after which it would be given up."""
_SLOTS = 6
"""Jobs of the queue that are worked at once."""


def _past(past: Past) -> None:
    past.steady(until=_SLOW)
    past.steady(since=_SLOW, kinds=[kind for kind in KINDS if kind.queue != "default"])
    for _ in past.done(
        "fraud_check",
        30,
        since=_SLOW - timedelta(minutes=1),
        until=timedelta(seconds=30),
        waited=timedelta(minutes=2),
        ran=timedelta(seconds=_SECONDS),
    ):
        pass
    client = past.client("default")
    past.run("fraud_check", _SLOTS, client=client, since=past.ago(seconds=25))
    past.wait("fraud_check", 14, since=timedelta(minutes=6))
    past.wait("search_index_update", 30, since=timedelta(minutes=6))


INCIDENT = Incident(
    name="slow-dependency",
    words="The service that fraud_check asks answers after 55 seconds instead of two, since 9"
    " minutes. Its jobs hold every slot of the queue default, and others wait behind them.",
    cause=Cause.SLOW_KIND,
    past=_past,
    troubles={"fraud_check": Trouble(seconds=_SECONDS)},
)
