"""The API of failed jobs by error."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, ClassVar, Literal, Self

from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import RETRY
from riverui.domain.jobs import FAILED
from riverui.errors import BadRequest, DatabaseUnavailable, NotFound
from riverui.features.error_groups.domain.groups import ErrorState
from riverui.features.error_groups.reader import ErrorReading
from riverui.features.error_groups.section.decide import decide
from riverui.features.error_groups.section.groups import (
    ORDERS,
    STATES,
    WORST,
    find,
    line,
    lines,
    read_filter,
    view,
)
from riverui.features.error_groups.section.other_pages import group_term
from riverui.features.error_groups.section.table import ErrorLine
from riverui.features.error_groups.verbs import (
    ERROR_VERBS,
    MAX_NUMBER,
    MAX_REASON,
    MAX_RELEASE,
    RIGHT,
    Asked,
    ErrorVerb,
)
from riverui.features.operations.api import OperationAnswer, start_matching
from riverui.features.operations.verbs import pace_parameters, read_pace
from riverui.storage.interface.params import JobFilter
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path, limit
from riverui.web.api.models import Body, Count, Id, Model, NeededText, Refusal, Time
from riverui.web.http.request_context import only
from riverui.web.search import time_terms

_GROUP = "Errors"
_LIMIT = 100
"""Groups per response by default."""
_JOBS = 100
"""Newest jobs of a group in a response."""
_NAMES = 100
"""Kinds, queues, workers or releases of a group in a response, commonest first."""


class ErrorGroupDecision(Model, frozen=True, kw_only=True):
    """The decision about a group."""

    state: ErrorState
    decided_at: Time | None
    decided_by: str
    reason: str
    release: Annotated[str, Meta(description="The release that fixes it; empty for any.")]
    until: Time | None
    rate: Annotated[Count | None, Meta(description="Failed jobs an hour that end it.")]
    total: Annotated[Count | None, Meta(description="Further failed jobs that end it.")]


class ErrorGroup(Model, frozen=True, kw_only=True):
    """Failed jobs with the same error."""

    fingerprint: str
    type: Annotated[str, Meta(description="The class of a Python error, `panic`, or empty.")]
    message: Annotated[str, Meta(description="What differs from job to job is replaced.")]
    frames: Annotated[list[str], Meta(description="Own code, the innermost last.")]
    state: Annotated[ErrorState, Meta(description="The decided state, while the decision holds.")]
    new: Annotated[
        bool, Meta(description="First seen since the newest mark of the last day, or in an hour.")
    ]
    regressed_at: Annotated[
        Time | None, Meta(description="When it came back after it had been resolved.")
    ]
    first_at: Time
    last_at: Time
    jobs: Annotated[Count, Meta(description="Failed jobs now, among those read.")]
    last_hour: Count
    last_day: Count
    seen: Annotated[
        Count | None,
        Meta(description="Failures counted while a dashboard was reading; null if not stored."),
    ]
    kinds: dict[str, Count]
    queues: dict[str, Count]
    workers: dict[str, Count]
    releases: dict[str, Count]
    job_ids: Annotated[list[Id], Meta(description="The newest jobs.")]
    decision: Annotated[
        ErrorGroupDecision | None, Meta(description="Null if there is no decision.")
    ]

    @classmethod
    def from_line(cls, shown: ErrorLine) -> Self:
        """Return the API's model of a group."""
        group, row = shown.group, shown.group.row
        at = serializers.optional_instant
        return cls(
            fingerprint=group.fingerprint,
            type=group.signature.type,
            message=group.signature.message,
            frames=list(group.signature.frames),
            state=shown.state,
            new=bool(shown.new),
            regressed_at=at(shown.regressed_at),
            first_at=serializers.instant(group.first_at),
            last_at=serializers.instant(group.last_at),
            jobs=shown.number,
            last_hour=shown.hour,
            last_day=shown.day,
            seen=row.number if row else None,
            kinds=_first(group.kinds),
            queues=_first(group.queues),
            workers=_first(group.workers),
            releases=_first(group.releases),
            job_ids=[job.id for job in group.jobs[:_JOBS]],
            decision=ErrorGroupDecision(
                state=row.decision.state,
                decided_at=at(row.decided_at),
                decided_by=row.decided_by,
                reason=row.decision.reason,
                release=row.decision.release,
                until=at(row.decision.until_at),
                rate=row.decision.until_rate,
                total=row.decision.until_total,
            )
            if row and row.decided_at
            else None,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a group without a decision."""
        return cls(
            fingerprint="fp1:9c1f0b7a52d3e684",
            type="ConnectionResetError",
            message="upstream closed the connection",
            frames=["mail.py in work", "smtp.py in send"],
            state=ErrorState.UNRESOLVED,
            new=True,
            regressed_at=None,
            first_at="2026-11-21T08:52:00Z",
            last_at="2026-11-21T09:00:00Z",
            jobs=1204,
            last_hour=1204,
            last_day=1204,
            seen=1310,
            kinds={"mail_send": 1200, "hook": 4},
            queues={"mail": 1204},
            workers={"worker-1": 1204},
            releases={"v1.4.2": 1204},
            job_ids=[9381022, 9380990],
            decision=None,
        )


class ErrorGroups(Model, frozen=True, kw_only=True):
    """Groups of failed jobs, and how many jobs were read."""

    data: list[ErrorGroup]
    groups: Annotated[Count, Meta(description="All groups that match.")]
    looked_at: Annotated[Count, Meta(description="Failed jobs that were read.")]
    more: Annotated[bool, Meta(description="Whether there are older failed jobs besides.")]
    complete: Annotated[
        bool, Meta(description="Whether the read is finished; otherwise ask again.")
    ]
    remembered: Annotated[
        bool, Meta(description="Whether the database has the table that keeps decisions.")
    ]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one group."""
        return cls(
            data=[ErrorGroup.example()],
            groups=1,
            looked_at=1204,
            more=False,
            complete=True,
            remembered=True,
        )


def _text(name: str, most: int) -> str:
    return f"`{name}` must be a text of at most {most} characters."


_NUMBER = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
_Pace = Annotated[int, Meta(ge=1)] | UnsetType | None
_REASON = Annotated[str, Meta(max_length=MAX_REASON)]


class ErrorDecided(Body, frozen=True, kw_only=True):
    """The reason why a group is unresolved again."""

    reason: _REASON = ""

    refusals: ClassVar[Mapping[str, Refusal]] = {"reason": _text("reason", MAX_REASON)}

    def asked(self) -> Asked:
        """Return what is asked for. Raise BadRequest for a time that is not valid."""
        return Asked(reason=self.reason)

    @classmethod
    def example(cls) -> Self:
        """Return a reason."""
        return cls(reason="it was another error")


class ErrorResolved(ErrorDecided, frozen=True, kw_only=True):
    """The release that fixes a group, and the reason."""

    release: Annotated[str, Meta(max_length=MAX_RELEASE)] = ""

    refusals: ClassVar[Mapping[str, Refusal]] = {
        **ErrorDecided.refusals,
        "release": _text("release", MAX_RELEASE),
    }

    def asked(self) -> Asked:
        """Return what is asked for."""
        return Asked(reason=self.reason, release=self.release)

    @classmethod
    def example(cls) -> Self:
        """Return a release."""
        return cls(release="v1.4.3", reason="retries on a closed connection")


class ErrorIgnored(ErrorDecided, frozen=True, kw_only=True):
    """Until when a group is ignored: the first of these ends it; without any, nothing does."""

    until: Time | UnsetType | None = UNSET
    rate: Annotated[_NUMBER | UnsetType | None, Meta(description="Failed jobs an hour.")] = UNSET
    total: Annotated[_NUMBER | UnsetType | None, Meta(description="Further failed jobs.")] = UNSET

    refusals: ClassVar[Mapping[str, Refusal]] = {
        **ErrorDecided.refusals,
        "until": "`until` must be a time such as 2026-11-22T09:00:00Z.",
        "rate": "`rate` must be a whole number from 1 on.",
        "total": "`total` must be a whole number from 1 on.",
    }

    def asked(self) -> Asked:
        """Return what is asked for. Raise BadRequest for a time that is not valid."""
        return Asked(
            reason=self.reason,
            until_at=_time(self.until) if isinstance(self.until, str) else None,
            until_rate=self.rate if isinstance(self.rate, int) else None,
            until_total=self.total if isinstance(self.total, int) else None,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a day, unless the rate gets high."""
        return cls(until="2026-11-22T09:00:00Z", rate=100, reason="the vendor is down")


_BODIES: Mapping[str, type[ErrorDecided]] = {
    "resolve": ErrorResolved,
    "ignore": ErrorIgnored,
    "unresolve": ErrorDecided,
}


class ErrorGroupRetry(Body, frozen=True, kw_only=True):
    """How fast a group is retried; by default as fast as the database allows."""

    per_minute: _Pace = UNSET
    canary: _Pace = UNSET
    stop_failing: _Pace = UNSET

    refusals: ClassVar[Mapping[str, Refusal]] = {
        parameter.name: parameter.refusal for parameter in pace_parameters(RETRY)
    }

    @classmethod
    def example(cls) -> Self:
        """Return a trial of ten jobs, followed by a slow pace."""
        return cls(per_minute=600, canary=10, stop_failing=20)


class ErrorGroupAnswer(Model, frozen=True, kw_only=True):
    """One group."""

    error: ErrorGroup

    @classmethod
    def example(cls) -> Self:
        """Return the example of a group."""
        return cls(error=ErrorGroup.example())


async def index(request: Request) -> Response:
    """Return the groups that are asked for."""
    only(request, "kind", "queue", "match", "state", "order", "limit")
    asked, most = read_filter(request), requests.limit(request, _LIMIT)
    seen = await view(request, whole=True)
    reading = _read(seen.reading)
    found, fitting = lines(request, seen, asked, limit=most)
    return serializers.reply(
        ErrorGroups(
            data=[ErrorGroup.from_line(each) for each in found],
            groups=fitting,
            looked_at=reading.looked_at,
            more=reading.more,
            complete=reading.complete,
            remembered=reading.remembered,
        )
    )


async def show(request: Request) -> Response:
    """Return one group."""
    only(request)
    return await _answer(request)


async def act(verb: ErrorVerb, request: Request) -> Response:
    """Apply a verb to a group, and return the group."""
    body = await requests.read(request, _BODIES[verb.name])
    await decide(request, verb, body.asked())
    return await _answer(request)


async def retry(request: Request) -> Response:
    """Start to retry all jobs of a group, and return 202 with the operation."""
    posted = await requests.payload(request)
    requests.convert(posted, ErrorGroupRetry)
    pace = read_pace(RETRY, posted)
    _, group = await find(request)
    if not group.jobs:
        raise NotFound("No job of this error group was found: they were retried or deleted.")
    matching = JobFilter(states=FAILED, terms=(group_term(group).term,))
    return await start_matching(request, RETRY, matching, given={}, pace=pace)


async def _answer(request: Request) -> Response:
    seen, group = await find(request)
    found = line(request, seen, group, group.jobs)
    return serializers.reply(ErrorGroupAnswer(error=ErrorGroup.from_line(found)))


def _read(reading: ErrorReading) -> ErrorReading:
    """Return the reading; raise DatabaseUnavailable if nothing was ever read."""
    if reading.problem and reading.at is None:
        raise DatabaseUnavailable(reading.problem)
    return reading


def _time(text: str) -> datetime:
    try:
        found = time_terms.parse(text, datetime.now(UTC))
    except BadRequest:
        found = None
    if found is None or not found.exact:
        raise BadRequest("`until` must be a time such as 2026-11-22T09:00:00Z.")
    return found.start


def _first(counted: Mapping[str, int]) -> dict[str, int]:
    return dict(list(counted.items())[:_NAMES])


_FINGERPRINT = in_path("fingerprint", "The group's fingerprint.", NeededText)

ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/errors",
        "api.errors.index",
        "jobs.read",
        index,
        Description(
            group=_GROUP,
            summary="Retryable and discarded jobs by the error of their last attempt: of the"
            " newest 5,000.",
            answer=ErrorGroups,
            parameters=(
                Parameter(name="kind", summary="Only jobs of this kind."),
                Parameter(name="queue", summary="Only jobs of this queue."),
                Parameter(name="match", summary="A text that the type or the message contains."),
                Parameter(
                    name="state",
                    summary="What was decided.",
                    type=Literal[*STATES],
                    default=ErrorState.UNRESOLVED.value,
                ),
                Parameter(name="order", summary="The order.", type=Literal[*ORDERS], default=WORST),
                limit(_LIMIT),
            ),
            extension=True,
        ),
    ),
    Endpoint(
        "GET",
        "/api/errors/{fingerprint}",
        "api.errors.show",
        "jobs.read",
        show,
        Description(
            group=_GROUP,
            summary="One group of failed jobs.",
            answer=ErrorGroupAnswer,
            parameters=(_FINGERPRINT,),
            fails=(404,),
            extension=True,
        ),
    ),
    Endpoint(
        "POST",
        "/api/errors/{fingerprint}/retry",
        "api.errors.retry",
        RETRY.right,
        retry,
        Description(
            group=_GROUP,
            summary="Retries the group's jobs that are failed now and were read, as an operation.",
            parameters=(_FINGERPRINT,),
            body=(ErrorGroupRetry,),
            accepted=OperationAnswer,
            fails=(404, 413),
            extension=True,
        ),
    ),
    *(
        Endpoint(
            "POST",
            f"/api/errors/{{fingerprint}}/{verb.name}",
            f"api.errors.{verb.name}",
            RIGHT,
            partial(act, verb),
            Description(
                group=_GROUP,
                summary=verb.summary,
                answer=ErrorGroupAnswer,
                parameters=(_FINGERPRINT,),
                body=(_BODIES[verb.name],),
                fails=(404, 413),
                extension=True,
            ),
        )
        for verb in ERROR_VERBS.values()
    ),
)
"""The endpoints."""
