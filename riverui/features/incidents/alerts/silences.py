"""Begin and end silences, for the page of alerts and the API."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from starlette.requests import Request

from riverui.domain.ulid import ulid
from riverui.errors import BadRequest, NotFound
from riverui.features.incidents.alerts.domain import Silence
from riverui.features.incidents.store import MAX_USER
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.http.context import access, dashboard

log = logging.getLogger("riverui.actions")

RIGHT = "alerts.silence"
LONGEST = timedelta(days=90)
"""Longest silence: a forgotten one should end."""
MAX_REASON = 500
"""Most characters of a reason."""


async def begin(
    request: Request, incident: str, until: datetime, *, every: bool, reason: str
) -> Silence:
    """Silence an incident, or `every` one of its cause and subject, and return the silence. Raise
    BadRequest if it would not end within LONGEST, NotFound if there is no such incident.
    """
    board, now = dashboard(request), datetime.now(UTC)
    if not now < until <= now + LONGEST:
        raise BadRequest(f"A silence must end in the future, within {LONGEST.days} days.")
    watch = board.get(INCIDENTS)
    async with await watch.store(board.driver.reading) as incidents:
        found = await incidents.incident_get(incident)
    if found is None:
        raise NotFound("Incident not found.")
    silence = Silence(
        id=ulid(now),
        incident="" if every else found.id,
        cause=found.cause,
        subject=found.subject,
        until=until,
        made_at=now,
        made_by=access(request).user[:MAX_USER],
        reason=reason.strip()[:MAX_REASON],
    )
    async with watch.alert_store(board.driver.transaction) as store:
        await store.silence_insert(silence)
    watch.expire()
    log.info("incident %s silenced until %s by %r", found.id, until, silence.made_by)
    return silence


async def end(request: Request, id: str) -> None:
    """End a silence. Raise NotFound if it has ended."""
    board = dashboard(request)
    watch = board.get(INCIDENTS)
    async with watch.alert_store(board.driver.transaction) as store:
        if not await store.silence_end(id):
            raise NotFound("This silence has ended.")
    watch.expire()
    log.info("silence %r ended by %r", id[:100], access(request).user)
