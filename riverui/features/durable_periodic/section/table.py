"""The page of durable periodic jobs, and their changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import DatabaseError, NotFound
from riverui.features.durable_periodic import verbs as actions
from riverui.features.durable_periodic.domain import (
    MAX_SCHEDULE,
    DurablePeriodicRow,
    PeriodicChange,
)
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.features.durable_periodic.verbs import PERIODIC_VERBS, PeriodicVerb
from riverui.storage.interface import Executor
from riverui.web.http.context import access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import local_path, url
from riverui.web.view.facts import fact
from riverui.web.view.format import plain
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

_ROWS = 500
"""Durable periodic jobs per page."""
_NOTICE = 120
"""Longest id in a notice, in characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeriodicSchedule:
    """Asks for a new schedule; it works with and without JavaScript."""

    template: ClassVar[str] = "periodic/schedule.html"
    fragments: ClassVar[Mapping[str, str]] = {"dialog": "periodic/_schedule.html"}

    row: DurablePeriodicRow
    most: int
    """Characters of a schedule."""
    next: str


async def read(request: Request) -> Mapping[str, DurablePeriodicRow]:
    """Return the durable periodic jobs by id; none if the table does not exist or the read times
    out.
    """
    board = dashboard(request)
    if not await board.own_tables.seen(DurablePeriodicStore):
        return {}
    found = await fact(board.driver, _list)
    return {} if isinstance(found, DatabaseError) else {row.id: row for row in found}


def verbs(row: DurablePeriodicRow) -> tuple[PeriodicVerb, ...]:
    """Return the changes possible in the job's current state."""
    other = PeriodicChange.RESUME if row.paused_at is None else PeriodicChange.PAUSE
    return tuple(verb for verb in PERIODIC_VERBS.values() if verb.change is not other)


async def change(verb: PeriodicVerb, request: Request) -> Response:
    """Change a durable periodic job; ask for the new schedule first."""
    board, posted = dashboard(request), await form(request)
    job_id = posted.get("id", "")
    next_url = local_path(request, posted.get("next"), default=url(request, "periodic.index"))
    if verb.change is PeriodicChange.SCHEDULE and "schedule" not in posted:
        row = (await read(request)).get(job_id)
        if row is None:
            raise NotFound(f"Durable periodic job not found: {job_id[:200]}.")
        return respond(request, PeriodicSchedule(row=row, most=MAX_SCHEDULE, next=next_url))
    user, schedule = access(request).user, posted.get("schedule", "")
    await actions.change(
        board.driver,
        verb,
        job_id,
        schedule=schedule,
        user=user,
        time_limit=board.config.action_timeout,
    )
    log.info("periodic job %r: %s %r by %r", job_id, verb.name, schedule, user)
    notice = Notice(level="success", title=f"{verb.done} {plain(job_id, _NOTICE)}")
    return done(request, notice, next=next_url, changed="jobs")


async def _list(executor: Executor) -> Sequence[DurablePeriodicRow]:
    return await DurablePeriodicStore(executor).durable_periodic_list(limit=_ROWS)
