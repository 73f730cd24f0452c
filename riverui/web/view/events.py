"""What happened lately, as all sections know it."""

from __future__ import annotations

import logging
from datetime import datetime

from starlette.requests import Request

from riverui.errors import DatabaseError
from riverui.web.http.context import dashboard
from riverui.web.view.contributions import Event

log = logging.getLogger("riverui.web")


async def events(request: Request, since: datetime, until: datetime) -> list[Event]:
    """Return what happened from one time on and before another, the newest first; without what
    the database does not answer. Raise its error if it answers nothing.
    """
    found: list[Event] = []
    failed: DatabaseError | None = None
    for read in dashboard(request).sections.events:
        try:
            found += await read(request, since, until)
        except DatabaseError as error:
            log.debug("a part of the timeline could not be read: %s", error)
            failed = error
    if failed is not None and not found:
        raise failed
    return sorted(found, key=lambda event: event.at, reverse=True)
