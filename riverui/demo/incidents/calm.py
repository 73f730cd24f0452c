"""Nothing is wrong."""

from __future__ import annotations

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause


def _past(past: Past) -> None:
    past.steady()


INCIDENT = Incident(
    name="calm",
    words="Nothing is wrong: a busy hour, with the failures and retries of any day.",
    cause=Cause.NONE,
    past=_past,
)
