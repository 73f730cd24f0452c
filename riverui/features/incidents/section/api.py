"""The API of incidents."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Self

from msgspec import Meta
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.time import FIRST, LAST
from riverui.features.incidents import domain
from riverui.features.incidents.section import pages
from riverui.features.incidents.store import TOP, Place
from riverui.features.incidents.watch import INCIDENTS
from riverui.web.api import requests, serializers
from riverui.web.api.diagnoses import HealthCheck, HealthReportAnswer, IncidentName
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path, limit
from riverui.web.api.models import EXAMPLE_TIME, Body, Model, Refusal, Time
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only
from riverui.web.view.finding_links import page_url

_GROUP = "Incidents"
_LIMIT = 100
"""Incidents per response by default."""
_ID = in_path("id", "The incident's id.")


class Deed(Model, frozen=True, kw_only=True):
    """What a person did while an incident was open."""

    at: Time
    user: str
    words: str


class Incident(IncidentName, frozen=True, kw_only=True):
    """A problem with a beginning and, once it is over, an end."""

    subject_is: Annotated[str, Meta(description="queue, kind, client or job; empty for all jobs.")]
    subject: str
    headline: str
    detail: str
    found_at: Time
    seen_at: Annotated[Time, Meta(description="When its cause was there for the last time.")]
    closed_at: Annotated[Time | None, Meta(description="Null while it is open.")]
    measure: Annotated[str, Meta(extra_json_schema={"enum": list(domain.Measure)})]
    usual: Annotated[float | None, Meta(description="The usual value of the measure.")]
    minutes: Annotated[
        list[tuple[int, float | None]],
        Meta(description="Minutes since 1970 and the value of the measure in each."),
    ]
    checks: Annotated[list[HealthCheck], Meta(description="When its cause was there last.")]
    deeds: list[Deed]
    note: str
    noted_at: Time | None
    noted_by: str

    @classmethod
    def whole(cls, request: Request, found: domain.Incident) -> Self:
        """Return all of an incident."""
        facts, at = found.facts, serializers.instant
        return cls(
            **asdict(IncidentName.from_incident(found, partial(page_url, request))),
            subject_is=found.subject.what,
            subject=found.subject.name,
            headline=found.headline,
            detail=" ".join(filter(None, (facts.detail, facts.cure, facts.statement))),
            found_at=at(found.found_at),
            seen_at=at(found.seen_at),
            closed_at=serializers.optional_instant(found.closed_at),
            measure=found.measure.value,
            usual=found.usual,
            minutes=list(facts.minutes),
            checks=[HealthCheck(**asdict(check)) for check in facts.checks],
            deeds=[Deed(at=at(each.at), user=each.user, words=each.words) for each in found.deeds],
            note=found.note,
            noted_at=serializers.optional_instant(found.noted_at),
            noted_by=found.noted_by,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a kind that fails since a deploy."""
        return cls(
            **asdict(IncidentName.example()),
            subject_is="kind",
            subject="mail_send",
            headline="77 % of its attempts failed since 08:41, usually 7.5 % (deploy v1.4.2).",
            detail="TypeError: unsupported operand (17 of the newest 20 failures)",
            found_at=EXAMPLE_TIME,
            seen_at=EXAMPLE_TIME,
            closed_at=None,
            measure="failing",
            usual=0.075,
            minutes=[(29_919_880, 0.071), (29_919_881, 0.77)],
            checks=HealthReportAnswer.example().sections[0].checks,
            deeds=[Deed(at=EXAMPLE_TIME, user="ops", words="Queue mail paused")],
            note="Rolling back.",
            noted_at=EXAMPLE_TIME,
            noted_by="ops",
        )


class IncidentAnswer(Model, frozen=True, kw_only=True):
    """One incident."""

    incident: Incident

    @classmethod
    def example(cls) -> Self:
        """Return the example of an incident."""
        return cls(incident=Incident.example())


class Incidents(Model, frozen=True, kw_only=True):
    """Incidents, those that began last first."""

    data: list[Incident]
    shared: Annotated[bool, Meta(description="Whether all dashboards of the database share them.")]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one incident."""
        return cls(data=[Incident.example()], shared=True)


class IncidentNote(Body, frozen=True, kw_only=True):
    """A note on an incident, which replaces the one before."""

    note: str

    refusals: ClassVar[Mapping[str, Refusal]] = {"note": "`note` is missing, or not text."}

    @classmethod
    def example(cls) -> Self:
        """Return a note."""
        return cls(note="Rolling back.")


async def index(request: Request) -> Response:
    """Answer incidents, those that began last first."""
    only(request, "before", "limit", "open")
    watch, before = dashboard(request).get(INCIDENTS), requests.first(request, "before")
    last = await pages.find(request, before) if before else None
    since = LAST if requests.first(request, "open") == "true" else FIRST
    place = TOP if last is None else Place(last.opened_at, last.id)
    async with await watch.store() as store:
        found = await store.incident_list(
            since=since, limit=requests.limit(request, _LIMIT), before=place
        )
    data = [Incident.whole(request, incident) for incident in found]
    return serializers.reply(Incidents(data=data, shared=await watch.shared()))


async def show(request: Request) -> Response:
    """Answer one incident."""
    found = await pages.find(request, request.path_params["id"])
    return serializers.reply(IncidentAnswer(incident=Incident.whole(request, found)))


async def note(request: Request) -> Response:
    """Replace the note of an incident, and answer the incident."""
    asked = await requests.read(request, IncidentNote)
    found = await pages.write_note(request, request.path_params["id"], asked.note)
    return serializers.reply(IncidentAnswer(incident=Incident.whole(request, found)))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/incidents",
        "api.incidents.index",
        "figures.read",
        index,
        Description(
            group=_GROUP,
            summary="Incidents, those that began last first.",
            answer=Incidents,
            parameters=(
                Parameter(name="open", summary="Only the open ones.", type=bool, default=False),
                Parameter(name="before", summary="Only those after this one, by its id."),
                limit(_LIMIT),
            ),
            fails=(404,),
            extension=True,
        ),
    ),
    Endpoint(
        "GET",
        "/api/incidents/{id}",
        "api.incidents.show",
        "figures.read",
        show,
        Description(
            group=_GROUP,
            summary="One incident.",
            answer=IncidentAnswer,
            parameters=(_ID,),
            fails=(404,),
            extension=True,
        ),
    ),
    Endpoint(
        "PUT",
        "/api/incidents/{id}/note",
        "api.incidents.note",
        pages.RIGHT,
        note,
        Description(
            group=_GROUP,
            summary="Replaces the note of an incident.",
            answer=IncidentAnswer,
            body=(IncidentNote,),
            parameters=(_ID,),
            fails=(404, 413),
            extension=True,
        ),
    ),
)
"""The endpoints."""
