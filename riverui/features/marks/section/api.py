"""The API of marks: list them, and make one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain import marks
from riverui.domain.time import aware_instant
from riverui.errors import BadRequest
from riverui.features.marks import reader, verbs as actions
from riverui.features.marks.store import MarkInsertParams, MarkStore
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, limit
from riverui.web.api.models import EXAMPLE_TIME, Body, Model, NeededText, Refusal, Time
from riverui.web.http.context import Service, access, dashboard
from riverui.web.http.request_context import only

log = logging.getLogger("riverui.actions")

MARKS = Service(make=lambda board: reader.Marks(board.reads, clock=board.clock))

_GROUP = "Marks"
_LIMIT = 100
"""Marks per response by default."""


class NewMark(Body, frozen=True, kw_only=True):
    """A moment to mark, such as a deploy."""

    label: Annotated[NeededText, Meta(description="In a few words, up to 200 characters.")]
    at: Annotated[datetime, Meta(tz=True)] | None = None
    release: str = ""
    url: Annotated[str, Meta(description="Where to read more: http or https.")] = ""

    refusals: ClassVar[Mapping[str, Refusal]] = {
        "label": "`label` is missing, or not text.",
        "at": "`at` must be a time with a time zone, as in RFC 3339.",
        "release": "`release` must be text.",
        "url": "`url` must be text.",
    }

    @classmethod
    def example(cls) -> Self:
        """Return a deploy that happens now."""
        return cls(label="v1.4.2", release="9f3c1d2", url="https://git.example/shop/v1.4.2")


class Mark(Model, frozen=True, kw_only=True):
    """A moment that charts show."""

    at: Annotated[Time, Meta(description="Rounded down to the minute.")]
    label: str
    release: str
    url: str
    user: Annotated[
        str, Meta(description="Who made it; for a release, the first client that ran it.")
    ]

    @classmethod
    def from_mark(cls, found: marks.Mark) -> Self:
        """Return the API's model of a mark."""
        return cls(
            at=serializers.instant(found.at),
            label=found.label,
            release=found.release,
            url=found.url,
            user=found.user,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a deploy."""
        return cls(
            at=EXAMPLE_TIME,
            label="v1.4.2",
            release="9f3c1d2",
            url="https://git.example/shop/v1.4.2",
            user="ci",
        )


class Marks(Model, frozen=True, kw_only=True):
    """Marks, newest first."""

    data: list[Mark]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one mark."""
        return cls(data=[Mark.example()])


class MarkAnswer(Model, frozen=True, kw_only=True):
    """The mark that was made, or the existing one with the same label."""

    mark: Mark
    made: Annotated[
        bool, Meta(description="Whether it is new; otherwise one with its label existed already.")
    ]

    @classmethod
    def example(cls) -> Self:
        """Return a new mark."""
        return cls(mark=Mark.example(), made=True)


async def index(request: Request) -> Response:
    """Return marks, newest first; none without their table."""
    only(request, "since", "until", "limit")
    now, board = datetime.now(UTC), dashboard(request)
    since = _time(request, "since") or now - actions.KEPT
    until = _time(request, "until") or now + timedelta(days=2)
    most = requests.limit(request, _LIMIT)
    found = []
    async with board.driver.reading() as executor:
        if await MarkStore.installed(executor):
            rows = await MarkStore(executor).mark_list(since=since, until=until, limit=most)
            found = [Mark.from_mark(row) for row in rows]
    return serializers.reply(Marks(data=found))


async def create(request: Request) -> Response:
    """Make a mark, and return it or the existing one."""
    asked, board = await requests.read(request, NewMark), dashboard(request)
    user = access(request).user
    try:
        at = None if asked.at is None else asked.at.astimezone(UTC)
    except OverflowError:
        raise BadRequest("`at` does not exist in UTC.") from None
    params = MarkInsertParams(
        label=asked.label, at=at, release=asked.release, url=asked.url, user=user
    )
    mark, made = await actions.mark_insert(board.driver, params)
    board.get(MARKS).expire()
    log.info("mark %r by %r%s", mark.label, user, "" if made else ", there already")
    return serializers.reply(MarkAnswer(mark=Mark.from_mark(mark), made=made))


def _time(request: Request, name: str) -> datetime | None:
    """Return the parameter as a time; raise BadRequest if it is not one."""
    if not (text := requests.first(request, name)):
        return None
    if (at := aware_instant(text)) is None:
        raise BadRequest(f"`{name}` must be a time with a time zone, such as {EXAMPLE_TIME}.")
    return at


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/marks",
        "api.marks.index",
        "figures.read",
        index,
        Description(
            group=_GROUP,
            summary="Deploys and other moments shown in charts, newest first; none without"
            " riverui's own tables.",
            answer=Marks,
            parameters=(
                Parameter(name="since", summary="Only those from then on.", type=Time),
                Parameter(name="until", summary="Only those before then.", type=Time),
                limit(_LIMIT),
            ),
            extension=True,
        ),
    ),
    Endpoint(
        "POST",
        "/api/marks",
        "api.marks.create",
        "marks.write",
        create,
        Description(
            group=_GROUP,
            summary="Marks a moment, by default now. If a mark has the same label and the same"
            " minute, or one next to it, returns that mark.",
            answer=MarkAnswer,
            body=(NewMark,),
            fails=(413, 501),
            extension=True,
        ),
    ),
)
"""The endpoints."""
