"""The API of marks, the deploys and other moments that charts show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from starlette.requests import Request

from riverui.features.marks.section import api
from riverui.web.http.context import Section, dashboard
from riverui.web.view.contributions import Event


async def events(request: Request, since: datetime, until: datetime) -> Sequence[Event]:
    """Return the marks between two times."""
    return [
        Event(at=mark.at, icon="flag", words=mark.label, user=mark.user, url=mark.url)
        for mark in await dashboard(request).marks_since(since)
        if mark.at < until
    ]


SECTION = Section(
    name="marks",
    api=api.ENDPOINTS,
    services=(api.MARKS,),
    marks=api.MARKS,
    events=events,
    rights={"marks.write": "mark deploys in charts"},
)
