"""A batch that takes an hour, as every night."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.demo.shop import KINDS
from riverui.domain.health import Cause

_BEGAN = timedelta(minutes=55)
"""How long ago the batch was inserted."""
_EVERY = timedelta(seconds=9)
"""Between two ends: three workers that take 27 seconds each."""


def _past(past: Past) -> None:
    past.steady(kinds=[kind for kind in KINDS if kind.name != "report_export"])
    count = _BEGAN // _EVERY
    done = past.done("report_export", count, since=_BEGAN, until=timedelta(0))
    for row in done:
        row |= {"created_at": past.now - _BEGAN, "scheduled_at": past.now - _BEGAN}
    past.run("report_export", 3, client=past.client("reports"), since=past.ago(seconds=12))
    past.wait("report_export", 140, since=_BEGAN, until=_BEGAN)


INCIDENT = Incident(
    name="nightly-batch",
    words="500 reports were inserted at once 55 minutes ago, as every night. They are worked one"
    " after the other, and nobody waits for them.",
    cause=Cause.NONE,
    past=_past,
)
