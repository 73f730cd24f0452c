"""Jobs are worked, and no client leads: what is scheduled or to be retried never becomes due."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause
from riverui.domain.jobs import JobState

_SINCE = timedelta(minutes=8)
"""How long ago the last leader resigned: many of its terms of some seconds."""


def _past(past: Past) -> None:
    past.steady()
    for row in past.put("subscription_renewal", 24, since=_SINCE):
        row["state"] = JobState.SCHEDULED
    for row in past.put("push_notification", 40, since=_SINCE):
        row["state"] = JobState.SCHEDULED


INCIDENT = Incident(
    name="leaderless",
    words="All workers run with leader election turned off, since a change of settings 8 minutes"
    " ago. What is due at once is worked; what is scheduled or to be retried is not.",
    cause=Cause.LEADERLESS,
    past=_past,
    leads=False,
)
