"""A deploy brought a bug: most attempts of one kind fail since."""

from __future__ import annotations

from datetime import timedelta

from riverui.demo.incidents.incident import Incident, Past, Trouble
from riverui.domain.health import Cause

_DEPLOYED = timedelta(minutes=9)
"""How long ago: failures have been rising for most of the quarter of an hour that is looked at."""
_ERROR = "TypeError: unsupported operand type(s) for +: 'decimal.Decimal' and 'NoneType'"


def _past(past: Past) -> None:
    past.steady()
    past.marks.append((past.now - _DEPLOYED, "v1.4.2"))
    for _ in past.fail(
        "email_send",
        170,
        since=_DEPLOYED - timedelta(seconds=30),
        until=timedelta(seconds=5),
        error=_ERROR,
    ):
        pass


INCIDENT = Incident(
    name="bad-deploy",
    words="Release v1.4.2 was deployed 9 minutes ago; since then most attempts of email_send fail"
    " with a TypeError.",
    cause=Cause.DEPLOY,
    past=_past,
    troubles={"email_send": Trouble(failing=0.8, error=_ERROR)},
)
