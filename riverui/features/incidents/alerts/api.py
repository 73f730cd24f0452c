"""The API of silences."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.features.incidents.alerts import domain, silences
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, in_path
from riverui.web.api.models import EXAMPLE_TIME, Body, Model, NeededText, Refusal, Time
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only

_GROUP = "Incidents"


class NewSilence(Body, frozen=True, kw_only=True):
    """An incident whose alerts are not sent until then."""

    incident: Annotated[NeededText, Meta(description="The incident's id.")]
    until: Annotated[datetime, Meta(tz=True)]
    every: Annotated[
        bool, Meta(description="Silence every incident of its cause and subject, later ones too.")
    ] = False
    reason: Annotated[str, Meta(description="Up to 500 characters.")] = ""

    refusals: ClassVar[Mapping[str, Refusal]] = {
        "incident": "`incident` is missing, or not text.",
        "until": "`until` must be a time with a time zone, as in RFC 3339.",
        "every": "`every` must be true or false.",
        "reason": "`reason` must be text.",
    }

    @classmethod
    def example(cls) -> Self:
        """Return a silence until the next morning."""
        return cls(
            incident="01M8HK4D1NM1R2E92NC61QEG5F",
            until=datetime.fromisoformat("2026-11-24T08:00:00Z"),
            reason="The partner is down until tomorrow.",
        )


class Silence(Model, frozen=True, kw_only=True):
    """What is silenced, until when."""

    id: str
    incident: Annotated[str, Meta(description="Empty for all of the cause and the subject.")]
    cause: str
    subject_is: Annotated[str, Meta(description="queue, kind, client or job; empty for all jobs.")]
    subject: str
    until: Time
    made_at: Time
    made_by: str
    reason: str

    @classmethod
    def from_silence(cls, found: domain.Silence) -> Self:
        """Return the API's model of a silence."""
        return cls(
            id=found.id,
            incident=found.incident,
            cause=found.cause.value,
            subject_is=found.subject.what,
            subject=found.subject.name,
            until=serializers.instant(found.until),
            made_at=serializers.instant(found.made_at),
            made_by=found.made_by,
            reason=found.reason,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a silence of one incident."""
        return cls(
            id="01M8HN6MSK4TN9JFW1NAW3FBD3",
            incident="01M8HK4D1NM1R2E92NC61QEG5F",
            cause="late",
            subject_is="queue",
            subject="mail",
            until="2026-11-24T08:00:00Z",
            made_at=EXAMPLE_TIME,
            made_by="ops",
            reason="The partner is down until tomorrow.",
        )


class Silences(Model, frozen=True, kw_only=True):
    """The silences that last, those that end last first."""

    data: list[Silence]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one silence."""
        return cls(data=[Silence.example()])


class SilenceAnswer(Model, frozen=True, kw_only=True):
    """One silence."""

    silence: Silence

    @classmethod
    def example(cls) -> Self:
        """Return the example of a silence."""
        return cls(silence=Silence.example())


async def index(request: Request) -> Response:
    """Answer the silences that last."""
    only(request)
    opened = await dashboard(request).get(INCIDENTS).read_open()
    return serializers.reply(Silences(data=[*map(Silence.from_silence, opened.silences)]))


async def create(request: Request) -> Response:
    """Begin a silence, and answer it."""
    asked = await requests.read(request, NewSilence)
    made = await silences.begin(
        request, asked.incident, asked.until, every=asked.every, reason=asked.reason
    )
    return serializers.reply(SilenceAnswer(silence=Silence.from_silence(made)))


async def delete(request: Request) -> Response:
    """End a silence, and answer those that are left."""
    # It has no fields, but is rejected if it is not JSON, as everywhere.
    await requests.payload(request)
    await silences.end(request, request.path_params["id"])
    return await index(request)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/silences",
        "api.silences.index",
        "figures.read",
        index,
        Description(
            group=_GROUP,
            summary="The silences that last, those that end last first.",
            answer=Silences,
            extension=True,
        ),
    ),
    Endpoint(
        "POST",
        "/api/silences",
        "api.silences.create",
        silences.RIGHT,
        create,
        Description(
            group=_GROUP,
            summary="Sends no alerts of an incident until a time, at most 90 days ahead.",
            answer=SilenceAnswer,
            body=(NewSilence,),
            fails=(404, 413),
            extension=True,
        ),
    ),
    Endpoint(
        "DELETE",
        "/api/silences/{id}",
        "api.silences.delete",
        silences.RIGHT,
        delete,
        Description(
            group=_GROUP,
            summary="Ends a silence; answers those that are left.",
            answer=Silences,
            parameters=(in_path("id", "The silence's id."),),
            fails=(404,),
            extension=True,
        ),
    ),
)
"""The endpoints."""
