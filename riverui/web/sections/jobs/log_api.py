"""The log of one attempt of a job, in pieces, for programs that follow it while it grows."""

from __future__ import annotations

import codecs
from typing import Annotated, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest, NotFound
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path
from riverui.web.api.models import Count, Id, Model
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only

_PIECE_BYTES = 1_000_000
"""Most bytes of a log in an answer: most logs are shorter, and the JSON stays small."""


class JobLog(Model, frozen=True, kw_only=True):
    """A piece of the log of one attempt, and the job's state."""

    id: Id
    state: JobState
    attempts: Annotated[Count, Meta(description="Attempts begun so far.")]
    attempt: Annotated[int, Meta(description="The attempt whose log this is.")]
    start: Annotated[Count, Meta(description="The byte of the log at which the text begins.")]
    next: Annotated[Count, Meta(description="The byte after the text: the next `start`.")]
    size: Annotated[Count, Meta(description="Bytes of the log written so far.")]
    text: str

    @classmethod
    def example(cls) -> Self:
        """Return the whole log of a running job."""
        return cls(
            id=9381022,
            state=JobState.RUNNING,
            attempts=2,
            attempt=2,
            start=0,
            next=14,
            size=14,
            text="sending to 42\n",
        )


async def index(request: Request) -> Response:
    """Answer a piece of an attempt's log, by default of the newest one; empty if it has no log."""
    only(request, "attempt", "start")
    job_id = requests.integer(request.path_params["job_id"])
    if not job_id:
        raise BadRequest("A job id must be a whole number.")
    start = _number(request, "start") or 0
    board = dashboard(request)
    async with board.driver.reading() as executor:
        job = await executor.jobs.get(job_id, cut=1, lean=True)
        if job is None:
            raise NotFound(f"Job not found: {job_id}.")
        named = _number(request, "attempt")
        attempt = job.attempt if named is None else named
        piece = await executor.jobs.log_piece(job_id, attempt, start=start, size=_PIECE_BYTES)
    text, size, end = "", 0, start
    if piece is not None:
        # Leave a character that is cut at the end for the next piece.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text, size = decoder.decode(piece.data), piece.size
        end = start + len(piece.data) - len(decoder.getstate()[0])
    return serializers.reply(
        JobLog(
            id=job.id,
            state=job.state,
            attempts=job.attempt,
            attempt=attempt,
            start=start,
            next=end,
            size=size,
            text=text,
        )
    )


def _number(request: Request, name: str) -> int | None:
    """Return a parameter that is a whole number; None if it is not given."""
    text = requests.first(request, name)
    if not text:
        return None
    number = requests.integer(text)
    if number is None or number < 0 or not is_bigint(number + _PIECE_BYTES):
        raise BadRequest(f"`{name}` is {text[:40]!r}: it must be a whole number.")
    return number


ENDPOINT = Endpoint(
    "GET",
    "/api/jobs/{job_id}/log",
    "api.jobs.log",
    "jobs.read",
    index,
    Description(
        group="Jobs",
        summary="A piece of an attempt's log, also while it is written.",
        answer=JobLog,
        parameters=(
            in_path("job_id", "The job's id.", Id),
            Parameter(
                name="attempt",
                summary="Which attempt; the newest one by default. 0 for entries without one.",
                type=Count,
            ),
            Parameter(name="start", summary="The byte at which to begin.", type=Count, default=0),
        ),
        fails=(404,),
        extension=True,
    ),
)
