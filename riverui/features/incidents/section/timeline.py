"""The timeline: incidents, deploys, pauses, actions on all matching jobs, and new leaders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Annotated, ClassVar, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.health import Cause
from riverui.domain.time import aware_instant
from riverui.errors import BadRequest
from riverui.features.incidents.alerts.domain import Silence
from riverui.features.incidents.domain import Deed, Incident
from riverui.features.incidents.store import Place
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter
from riverui.web.api.models import EXAMPLE_TIME, Model, Time
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only, url
from riverui.web.view.contributions import Event
from riverui.web.view.events import events
from riverui.web.view.render import respond

_DAYS = timedelta(days=7)
"""Days on a page, and in an answer."""
_INCIDENTS = 200
"""Most incidents on the timeline at once."""
_LEADER = (Cause.LEADERLESS, Cause.NOBODY_WORKS)
"""Causes that a leader's election may explain: of other incidents it is shown in no timeline."""
_AROUND = timedelta(minutes=10)
"""Time before and after an incident whose events are shown with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineIndex:
    """What happened, by day."""

    template: ClassVar[str] = "incidents/timeline.html"
    fragments: ClassVar[Mapping[str, str]] = {"timeline": "incidents/_timeline.html"}

    days: tuple[tuple[date, tuple[Event, ...]], ...]
    """Days in UTC with their events, the newest first."""
    since: datetime
    self_url: str
    first_url: str
    """The newest days; empty if these are they."""
    older_url: str


class TimelineEvent(Model, frozen=True, kw_only=True):
    """Something that happened."""

    at: Time
    words: str
    user: Annotated[str, Meta(description="Who did it; empty if nobody did or it is unknown.")]
    url: Annotated[str, Meta(description="Where to read more; empty if nowhere.")]


class Timeline(Model, frozen=True, kw_only=True):
    """What happened, the newest first."""

    data: list[TimelineEvent]

    @classmethod
    def example(cls) -> Self:
        """Return a deploy."""
        return cls(data=[TimelineEvent(at=EXAMPLE_TIME, words="v1.4.2", user="ci", url="")])


async def incident_events(request: Request, since: datetime, until: datetime) -> Sequence[Event]:
    """Return the beginnings and ends of incidents, what people did meanwhile, and silences."""
    board = dashboard(request)
    watch = board.get(INCIDENTS)
    async with await watch.store() as store:
        found = await store.incident_list(since=since, limit=_INCIDENTS, before=Place(until, ""))
    async with watch.alert_store(board.driver.reading) as alerts:
        silenced = [_silenced(request, each) for each in await alerts.silence_list(since=since)]
    found_once = {event: None for incident in found for event in _events(request, incident)}
    return [event for event in (*found_once, *silenced) if since <= event.at < until]


def _silenced(request: Request, silence: Silence) -> Event:
    about = f"{silence.cause.replace('_', ' ')} {silence.subject.name}".strip()
    return Event(
        at=silence.made_at,
        icon="pause",
        words=f"Alerts silenced until {silence.until:%d %b %H:%M} UTC: {about}",
        user=silence.made_by,
        url=url(request, "alerts"),
    )


def _events(request: Request, incident: Incident) -> Iterator[Event]:
    link = url(request, "incidents.show", id=incident.id)
    yield Event(at=incident.opened_at, icon="triangle-alert", words=incident.title, url=link)
    if incident.ended_at is not None:
        words = f"Over: {incident.title}"
        yield Event(at=incident.ended_at, icon="check", words=words, url=link)
    for deed in incident.deeds:
        yield Event(at=deed.at, icon="play", words=deed.words, user=deed.user, deed=True)


async def incident_timeline(request: Request, incident: Incident) -> list[Event]:
    """Return what happened around an incident, the oldest first."""
    until = (incident.closed_at or datetime.now(UTC)) + _AROUND
    found = await events(request, incident.opened_at - _AROUND, until)
    own = url(request, "incidents.show", id=incident.id)
    led = incident.cause in _LEADER
    kept = [event for event in found if event.url != own and (led or not event.election)]
    pending = [Deed.of(*deed) for deed in dashboard(request).deeds if incident.closed_at is None]
    kept += [
        Event(at=deed.at, icon="play", words=deed.words, user=deed.user, deed=True)
        for deed in pending
    ]
    began = Event(at=incident.opened_at, icon="triangle-alert", words="It began")
    noticed = Event(at=incident.found_at, icon="eye", words="Found by the dashboard")
    kept += [began, noticed]
    if incident.noted_at is not None:
        kept.append(
            Event(at=incident.noted_at, icon="file-text", words="Note", user=incident.noted_by)
        )
    if incident.ended_at is not None:
        kept.append(Event(at=incident.ended_at, icon="check", words="It was over"))
    return sorted(kept, key=lambda event: event.at)


async def index(request: Request) -> Response:
    """Show a week of the timeline."""
    only(request, "until")
    asked, here = _until(request), url(request, "timeline")
    until = asked or datetime.now(UTC) + timedelta(minutes=1)
    since = (until - _DAYS).replace(hour=0, minute=0, second=0, microsecond=0)
    found = await events(request, since, until)
    days = groupby(found, key=lambda event: event.at.astimezone(UTC).date())
    return respond(
        request,
        TimelineIndex(
            days=tuple((day, tuple(group)) for day, group in days),
            since=since,
            self_url=f"{here}?until={_text(until)}" if asked else here,
            first_url=here if asked else "",
            older_url=f"{here}?until={_text(since)}",
        ),
    )


async def show(request: Request) -> Response:
    """Answer with a week of the timeline."""
    until = _until(request) or datetime.now(UTC) + timedelta(minutes=1)
    found = await events(request, until - _DAYS, until)
    data = [
        TimelineEvent(
            at=serializers.instant(event.at),
            words=f"{event.name} {event.words}".strip(),
            user=event.user,
            url=event.url,
        )
        for event in found
    ]
    return serializers.reply(Timeline(data=data))


ENDPOINT = Endpoint(
    "GET",
    "/api/timeline",
    "api.timeline",
    "figures.read",
    show,
    Description(
        group="Incidents",
        summary="A week of incidents, deploys, pauses, actions on all matching jobs, and leaders.",
        answer=Timeline,
        parameters=(
            Parameter(name="until", summary="Only what was before; by default now.", type=Time),
        ),
        extension=True,
    ),
)


def _until(request: Request) -> datetime | None:
    if not (text := requests.first(request, "until")):
        return None
    if (at := aware_instant(text)) is None:
        raise BadRequest(f"`until` must be a time with a time zone, such as {EXAMPLE_TIME}.")
    return at


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
