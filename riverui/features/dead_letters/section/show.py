"""One dead letter: its page, and its raw JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import DELETE, RETRY
from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import MAX_NAME, JobShowRow
from riverui.errors import NotFound, QueryTimeout
from riverui.features.dead_letters.domain import DeadReason
from riverui.features.dead_letters.section.missing import missing_table_as
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.storage.interface import Executor
from riverui.storage.interface.params import Field, TextPiece
from riverui.web.http.context import access, dashboard
from riverui.web.http.pieces import PIECE_BYTES, whole_text
from riverui.web.http.request_context import only, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view import timeline
from riverui.web.view.contributions import AttemptsLink
from riverui.web.view.render import respond
from riverui.web.view.timeline import JobAttempt, Step

_RAW_FIELDS = ("args", "errors", "job", "metadata", "output")
"""The fields that can be downloaded as text; `job` is the whole row."""


class DeadLettersShow(Struct, frozen=True, kw_only=True):
    """The page of one dead letter, made of the parts of a job's page."""

    template: ClassVar[str] = "dead_letters/show.html"
    fragments: ClassVar[Mapping[str, str]] = {}
    raw_route: ClassVar[str] = "dead_letters.raw"
    log_route: ClassVar[str] = ""

    job: JobShowRow
    died_at: datetime
    reason: DeadReason
    deleted_by: str
    """Who deleted it; empty if it was not deleted or the user is unknown."""
    steps: tuple[Step, ...]
    attempts: tuple[tuple[JobAttempt, ...], ...]
    """Newest first, in groups of the same error."""
    earlier: int
    """How many attempts are older than those shown."""
    too_large: bool
    """Whether the row's JSON could not be read in time and is left out."""
    verbs: tuple[JobVerb, ...]
    self_url: str
    back_url: str
    queue_url: str
    attempts_links: tuple[AttemptsLink, ...]
    """Always empty: a dead letter belongs to no error group."""
    tag_urls: Mapping[str, str]
    worker_urls: Mapping[str, str]


async def show(request: Request) -> Response:
    """Show the page of one dead letter. Raise NotFound if it does not exist."""
    only(request)
    driver, job_id, now = dashboard(request).driver, request.path_params["id"], datetime.now(UTC)
    too_large = False
    with missing_table_as(NotFound):
        try:
            async with driver.reading() as executor:
                row = await DeadLetterStore(executor).dead_job_get(job_id)
        except QueryTimeout:
            too_large = True
            async with driver.reading() as executor:
                row = await DeadLetterStore(executor).dead_job_get(job_id, lean=True)
    if row is None:
        raise NotFound(_missing(job_id))
    job, viewer = row.job, access(request)
    attempts = timeline.attempts(job, now)
    home = url(request, "dead_letters.index")
    return respond(
        request,
        DeadLettersShow(
            job=job,
            died_at=row.died_at,
            reason=row.reason,
            deleted_by=row.deleted_by,
            steps=timeline.steps(job, now),
            attempts=timeline.grouped(attempts),
            earlier=timeline.attempt_count(job) - len(attempts),
            too_large=too_large,
            verbs=tuple(verb for verb in (RETRY, DELETE) if viewer.may(verb.right)),
            self_url=url(request, "dead_letters.show", id=job.id),
            back_url=home,
            queue_url=f"{home}?{urlencode({'queue': job.queue})}",
            attempts_links=(),
            tag_urls={tag: jobs_url(request, (query.equal(Field.TAG, tag),)) for tag in job.tags},
            worker_urls={
                worker: jobs_url(request, (query.equal(Field.WORKER, worker),))
                for worker in reversed(job.attempted_by)
                if len(worker) <= MAX_NAME
            },
        ),
    )


async def raw(request: Request) -> Response:
    """Return one JSON field of a dead letter, or the whole row, as text.

    Raise NotFound if the dead letter or the field does not exist.
    """
    job_id, field = request.path_params["id"], request.path_params["field"]
    if field not in _RAW_FIELDS:
        raise NotFound
    missing = f"Dead letter {job_id} not found, or it has no {field}."
    with missing_table_as(NotFound):
        return await whole_text(request, missing, partial(_piece, job_id, field))


async def _piece(job_id: int, field: str, executor: Executor, start: int) -> TextPiece | None:
    letters = DeadLetterStore(executor)
    return await letters.dead_job_text_piece(job_id, field, start=start, size=PIECE_BYTES)


def _missing(job_id: int) -> str:
    return f"Dead letter not found: {job_id}. It may have been retried, or deleted."
