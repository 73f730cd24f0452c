"""A session has forgotten to end its transaction."""

from __future__ import annotations

from riverui.demo.incidents.incident import Incident, Past
from riverui.domain.health import Cause


def _past(past: Past) -> None:
    past.steady()


INCIDENT = Incident(
    name="long-transaction",
    words="A session named nightly-report has begun a transaction and does not end it. It is told"
    " of once the transaction has been open for 10 minutes.",
    cause=Cause.LONG_TRANSACTION,
    past=_past,
    open_transaction=True,
)
