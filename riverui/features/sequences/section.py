"""A job's sequence: its place in line on the job's page, and the verb that moves the sequence on
past a job that halts it.
"""

from __future__ import annotations

import logging

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest, DatabaseError, NotFound
from riverui.features.sequences import verbs as actions
from riverui.features.sequences.domain import SEQ_KEY, SequenceJob, SequencePlace
from riverui.storage.interface.params import Field
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, in_path
from riverui.web.api.models import Id, Status
from riverui.web.http.context import Section, access, dashboard
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import form
from riverui.web.http.request_context import local_path, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.contributions import JobCard
from riverui.web.view.notices import done

log = logging.getLogger("riverui.actions")

RIGHT = "jobs.retry"
"""The right to skip a job: a user who may retry a later job of its sequence moves past it too."""


class LinkedJob(Struct, frozen=True, kw_only=True):
    """Another job of the sequence."""

    job: SequenceJob
    url: str


class SequenceCard(Struct, frozen=True, kw_only=True):
    """The card of a sequence on a job's page."""

    place: SequencePlace
    here: bool
    """Whether the job itself is the head."""
    head: LinkedJob | None
    """The job that the others wait for, if it is another one."""
    before: tuple[LinkedJob, ...]
    after: tuple[LinkedJob, ...]
    behind: int
    """Jobs that wait for this one, as far as they were counted."""
    skips: bool
    """Whether the job halts the sequence, or will when its turn comes."""
    skip_url: str
    """The URL to skip it; empty if the user may not."""
    list_url: str
    """All jobs of the sequence."""


async def sequence_card(request: Request, job: JobShowRow) -> SequenceCard | None:
    """Return the place of a job in its sequence; None if it is in none, or if that cannot
    be read.
    """
    try:
        place = await actions.place(dashboard(request).driver, job)
    except DatabaseError:
        return None
    if place is None:
        return None

    def linked(other: SequenceJob) -> LinkedJob:
        return LinkedJob(job=other, url=url(request, "jobs.show", id=other.id))

    here = place.head_id == job.id
    head = None
    if place.head_id is not None and not here:
        head = linked(SequenceJob(id=place.head_id, state=place.head_state))
    # Jobs in line wait behind the head, also those with a lower id that were put in line again.
    after = (*place.before, *place.after) if here else place.after
    ended = job.state in (JobState.CANCELLED, JobState.DISCARDED)
    skips = ended and ((here and place.halted_at is not None) or place.waiting)
    return SequenceCard(
        place=place,
        here=here,
        head=head,
        before=() if here or not place.waiting else tuple(map(linked, place.before)),
        after=tuple(map(linked, after)) if here or place.waiting else (),
        behind=min(place.cap, place.ahead + place.behind) if here else place.behind,
        skips=skips,
        skip_url=url(request, "jobs.skip", id=job.id)
        if skips and access(request).may(RIGHT)
        else "",
        list_url=jobs_url(request, (query.contains(Field.METADATA, SEQ_KEY, place.key),)),
    )


async def skip(request: Request) -> Response:
    """Move the sequence on past a job that halts it."""
    posted, job_id = await form(request), request.path_params["id"]
    if not is_bigint(job_id):
        raise NotFound(f"Job not found: {job_id}.")
    place = await _carry_out(request, job_id)
    here = url(request, "jobs.show", id=job_id)
    details: tuple[str, ...] = ("No job waits in it now.",)
    if place is not None and place.head_id is not None:
        halted = f", and was {place.head_state} too: it halts" if place.halted_at else ""
        details = (f"Job {place.head_id} is next{halted}.",)
    elif place is not None and place.ahead + place.behind:
        details = ("The next job runs as soon as the leader finds it.",)
    notice = Notice(
        level="success", title=f"The sequence continues past job {job_id}", details=details
    )
    next_url = local_path(request, posted.get("next"), default=here)
    return done(request, notice, next=next_url, changed="jobs")


async def skip_by_api(request: Request) -> Response:
    """Move the sequence on past a job, for the API."""
    job_id = requests.integer(request.path_params["job_id"])
    if not job_id:
        raise BadRequest("A job id must be a whole number.")
    await _carry_out(request, job_id)
    return serializers.reply(Status())


async def _carry_out(request: Request, job_id: int) -> SequencePlace | None:
    """Skip the job, recount the states, and log it."""
    board = dashboard(request)
    place = await actions.skip(board.driver, job_id, time_limit=board.config.action_timeout)
    board.counts.expire()
    key = None if place is None else place.key
    log.info("skip by %r: job %d of sequence %r", access(request).user, job_id, key)
    return place


ENDPOINT = Endpoint(
    "POST",
    "/api/jobs/{job_id}/skip",
    "api.jobs.skip",
    RIGHT,
    skip_by_api,
    Description(
        group="Jobs",
        summary="Moves a sequence on past a cancelled or discarded job that halts it; 400 if it"
        " does not.",
        answer=Status,
        parameters=(in_path("job_id", "The job's id.", Id),),
        fails=(404,),
        extension=True,
    ),
)
SECTION = Section(
    name="sequences",
    routes=(GuardedRoute("POST", "/jobs/{id:river_bigint}/skip", "jobs.skip", RIGHT, skip),),
    api=(ENDPOINT,),
    job_cards=(JobCard(template="sequences/_job.html", read=sequence_card),),
)
