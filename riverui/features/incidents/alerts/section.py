"""The page of alerts: where they are sent, a test, and silences."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import BadRequest
from riverui.features.incidents.alerts import api, silences
from riverui.features.incidents.alerts.domain import Silence
from riverui.features.incidents.alerts.silences import MAX_REASON
from riverui.features.incidents.domain import Incident
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.http.context import Section, access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import Form, form
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.view.notices import done
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

_SPANS = {"1": "1 hour", "8": "8 hours", "24": "24 hours"}
"""Hours of a silence, and their words: a deploy, a night, a day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertsIndex:
    """Where alerts are sent, silences, and open incidents to silence."""

    template: ClassVar[str] = "alerts/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"alerts": "alerts/_alerts.html"}

    destinations: tuple[str, ...]
    """The shape and the host of each."""
    level: str
    """The least level that is sent."""
    silences: Sequence[Silence]
    incidents: tuple[tuple[Incident, Silence | None], ...]
    """The open ones, and the silence that covers each."""
    self_url: str
    spans: Mapping[str, str]
    max_reason: int = MAX_REASON


async def index(request: Request) -> Response:
    """Answer with the page of alerts."""
    only(request)
    board = dashboard(request)
    watch = board.get(INCIDENTS)
    opened = await watch.read_open()
    return respond(
        request,
        AlertsIndex(
            destinations=tuple(each.words for each in watch.alerts.destinations),
            level=board.config.alert_level,
            silences=opened.silences,
            incidents=tuple((each, opened.silence(each)) for each in opened.incidents),
            self_url=url(request, "alerts"),
            spans=_SPANS,
        ),
    )


async def test(request: Request) -> Response:
    """Send a test alert, and answer what became of it."""
    await form(request)
    answers = await dashboard(request).get(INCIDENTS).alerts.test()
    log.info("test alert sent by %r", access(request).user)
    if not answers:
        raise BadRequest("No alerts are sent: RIVERUI_ALERT_WEBHOOK is not set.")
    failed = [words for _, words in answers if words]
    notice = Notice(
        level="error" if failed else "success",
        title="The test alert failed" if failed else "Test alert sent",
        details=tuple(f"{to.words}: {words or 'sent'}." for to, words in answers),
    )
    return done(request, notice, next=url(request, "alerts"))


async def silence(request: Request) -> Response:
    """Silence an incident, or all of its cause and subject, until a time."""
    posted = await form(request)
    made = await silences.begin(
        request,
        posted.get("incident", ""),
        _until(posted),
        every=posted.get("scope") == "all",
        reason=posted.get("reason", ""),
    )
    notice = Notice(level="success", title=f"Silenced until {made.until:%d %b %H:%M} UTC")
    return done(request, notice, next=url(request, "alerts"), changed="alerts")


async def end(request: Request) -> Response:
    """End a silence."""
    await silences.end(request, (await form(request)).get("id", ""))
    notice = Notice(level="success", title="The silence has ended")
    return done(request, notice, next=url(request, "alerts"), changed="alerts")


def _until(posted: Form) -> datetime:
    """Return the end of a silence: a time in UTC, else so many hours from now."""
    try:
        if given := posted.get("until", ""):
            return datetime.fromisoformat(given).replace(tzinfo=UTC)
        return datetime.now(UTC) + timedelta(hours=int(posted.get("hours", "")))
    except (ValueError, OverflowError):
        raise BadRequest("Choose how long to be silent.") from None


SECTION = Section(
    name="alerts",
    routes=(
        GuardedRoute("GET", "/alerts", "alerts", "figures.read", index),
        GuardedRoute("POST", "/alerts/test", "alerts.test", "alerts.test", test),
        GuardedRoute("POST", "/alerts/silence", "alerts.silence", silences.RIGHT, silence),
        GuardedRoute("POST", "/alerts/end", "alerts.end", silences.RIGHT, end),
    ),
    api=api.ENDPOINTS,
    rights={
        silences.RIGHT: "silence alerts of incidents",
        "alerts.test": "send test alerts",
    },
)
"""Alerts: where they are sent, a test, and silences."""
