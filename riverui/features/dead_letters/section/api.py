"""The API of dead letters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import DELETE, RETRY
from riverui.domain.jobs import JobTextRow
from riverui.errors import BadRequest, NotFound, NotSupported, SchemaMissing
from riverui.features.dead_letters import verbs as dead_letters
from riverui.features.dead_letters.domain import DeadJobDeath, DeadJobListRow, DeadReason
from riverui.features.dead_letters.section import places
from riverui.features.dead_letters.section.index import read_filter
from riverui.features.dead_letters.section.missing import missing_table_as
from riverui.features.dead_letters.section.verbs import log_changes
from riverui.features.dead_letters.store import DeadJobListParams, DeadJobPage, DeadLetterStore
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path, limit
from riverui.web.api.job_models import EXAMPLE_JOB, Ids, Job
from riverui.web.api.models import EXAMPLE_TIME, Count, Id, Model, Time
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only

_GROUP = "Dead letters"
_LIMIT = 100
"""Dead letters per response by default."""
_DIED = DeadJobDeath(datetime(2026, 11, 21, 9, tzinfo=UTC), DeadReason.DISCARDED)


class ListedDeadLetter(Model, frozen=True, kw_only=True):
    """A dead letter in a list."""

    id: Annotated[Id, Meta(description="The job's id, which it keeps.")]
    kind: str
    queue: str
    state: str
    attempt: Count
    max_attempts: Count
    priority: int
    created_at: Time
    finalized_at: Time | None
    died_at: Annotated[Time, Meta(description="When it was moved out of the jobs' table.")]
    reason: DeadReason
    deleted_by: Annotated[
        str | None, Meta(description="Who deleted it; null if unknown or not deleted.")
    ]
    error: Annotated[
        str | None, Meta(description="The beginning of its last error; null if it has none.")
    ]

    @classmethod
    def from_row(cls, row: DeadJobListRow) -> Self:
        """Return the API's model of a row."""
        job = row.job
        return cls(
            id=job.id,
            kind=job.kind,
            queue=job.queue,
            state=job.state.value,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            priority=job.priority,
            created_at=serializers.instant(job.created_at),
            finalized_at=serializers.optional_instant(job.finalized_at),
            died_at=serializers.instant(row.died_at),
            reason=row.reason,
            deleted_by=row.deleted_by or None,
            error=job.last_error,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a mail that could not be sent."""
        return cls(
            id=9381022,
            kind="mail_send",
            queue="mail",
            state="discarded",
            attempt=25,
            max_attempts=25,
            priority=1,
            created_at="2026-10-24T09:00:00Z",
            finalized_at="2026-11-14T09:00:00Z",
            died_at=EXAMPLE_TIME,
            reason=DeadReason.DISCARDED,
            deleted_by=None,
            error="ConnectionResetError: upstream closed the connection",
        )


class DeadLetterList(Model, frozen=True, kw_only=True):
    """Dead letters, those moved last first."""

    data: list[ListedDeadLetter]
    next_cursor: Annotated[
        str | None,
        Meta(
            description="Null if nothing follows; a search for a text goes on there where it has"
            " looked at 20,000 dead letters."
        ),
    ]

    kept: Annotated[
        bool, Meta(description="Whether the database has the table that keeps dead letters.")
    ]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one dead letter."""
        return cls(data=[ListedDeadLetter.example()], next_cursor=None, kept=True)


class DeadLetterJob(Job, frozen=True, kw_only=True):
    """A dead letter: the job as it was, and when and why it was moved."""

    died_at: Time
    reason: DeadReason
    deleted_by: str | None

    @classmethod
    def of_dead(cls, row: JobTextRow, death: DeadJobDeath) -> Self:
        """Return the API's model of a dead letter."""
        died_at = serializers.instant(death.died_at)
        return cls.of_text(
            row, died_at=died_at, reason=death.reason, deleted_by=death.deleted_by or None
        )

    @classmethod
    def example(cls) -> Self:
        """Return a job that has failed once."""
        return cls.of_dead(EXAMPLE_JOB, _DIED)


class SkippedDeadLetter(Model, frozen=True, kw_only=True):
    """A dead letter that was not changed, and why."""

    id: Id
    reason: SkipReason


class DeadLetterChanges(Model, frozen=True, kw_only=True):
    """What happened to the dead letters: each id is in one of the two lists."""

    changed: list[Id]
    skipped: list[SkippedDeadLetter]

    @classmethod
    def from_changes(cls, changes: JobChanges) -> Self:
        """Return the changes as the API shows them."""
        return cls(
            changed=list(changes.changed),
            skipped=[SkippedDeadLetter(id=each, reason=why) for each, why in changes.skipped],
        )

    @classmethod
    def example(cls) -> Self:
        """Return one id that changed and one that was not found."""
        skipped = SkippedDeadLetter(id=9381023, reason=SkipReason.NOT_FOUND)
        return cls(changed=[9381022], skipped=[skipped])


async def index(request: Request) -> Response:
    """Return dead letters."""
    only(request, "kind", "queue", "match", "cursor", "limit")
    asked, most = read_filter(request), requests.limit(request, _LIMIT, least=1)
    params = DeadJobListParams(
        kind=asked.kind,
        queue=asked.queue,
        error=asked.match,
        after=places.read(requests.first(request, "cursor")),
        limit=most,
    )
    page, kept = DeadJobPage(rows=(), more=False), True
    try:
        async with dashboard(request).driver.reading() as executor:
            page = await DeadLetterStore(executor).dead_job_list(params)
    except (NotSupported, SchemaMissing):
        kept = False
    end = (page.rows[-1].died_at, page.rows[-1].job.id) if page.more else page.searched
    return serializers.reply(
        DeadLetterList(
            data=[ListedDeadLetter.from_row(row) for row in page.rows],
            next_cursor=places.written(end) if end else None,
            kept=kept,
        )
    )


async def show(request: Request) -> Response:
    """Return one dead letter with its errors and metadata."""
    job_id = requests.integer(request.path_params["job_id"])
    if not job_id:
        raise BadRequest("The id of a dead letter must be a whole number.")
    with missing_table_as(NotFound):
        async with dashboard(request).driver.reading() as executor:
            found = await DeadLetterStore(executor).dead_job_text_get(job_id)
    if found is None:
        raise NotFound(f"Dead letter not found: {job_id}.")
    return serializers.reply(DeadLetterJob.of_dead(*found))


async def retry(request: Request) -> Response:
    """Put dead letters back among the jobs, and report those that could not be."""
    board = dashboard(request)
    ids = requests.convert(await requests.payload(request), Ids).numbers()
    with missing_table_as(BadRequest):
        changes = await dead_letters.retry(
            board.driver, ids, pilot=board.pilot, time_limit=board.config.action_timeout
        )
    board.counts.expire()
    log_changes(request, RETRY, changes)
    return serializers.reply(DeadLetterChanges.from_changes(changes))


async def delete(request: Request) -> Response:
    """Remove dead letters permanently."""
    board = dashboard(request)
    ids = requests.convert(await requests.payload(request), Ids).numbers()
    limit = board.config.action_timeout
    with missing_table_as(BadRequest):
        changes = await dead_letters.delete(board.driver, ids, time_limit=limit)
    log_changes(request, DELETE, changes)
    return serializers.reply(DeadLetterChanges.from_changes(changes))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/dead-letters",
        "api.dead_letters.index",
        "jobs.read",
        index,
        Description(
            group=_GROUP,
            summary="Discarded jobs that were kept after their retention, those moved last first.",
            answer=DeadLetterList,
            parameters=(
                Parameter(name="kind", summary="Only those of this kind."),
                Parameter(name="queue", summary="Only those of this queue."),
                Parameter(name="match", summary="A text in the beginning of the last error."),
                Parameter(name="cursor", summary="The `next_cursor` of the previous page."),
                limit(_LIMIT),
            ),
            extension=True,
        ),
    ),
    Endpoint(
        "GET",
        "/api/dead-letters/{job_id}",
        "api.dead_letters.show",
        "jobs.read",
        show,
        Description(
            group=_GROUP,
            summary="One dead letter with its errors and metadata.",
            answer=DeadLetterJob,
            parameters=(in_path("job_id", "The job's id.", Id),),
            fails=(404,),
            extension=True,
        ),
    ),
    *(
        Endpoint(
            "POST",
            f"/api/dead-letters/{verb.name}",
            f"api.dead_letters.{verb.name}",
            verb.right,
            handler,
            Description(
                group=_GROUP,
                summary=summary,
                answer=DeadLetterChanges,
                body=(Ids,),
                fails=(413,),
                extension=True,
            ),
        )
        for verb, handler, summary in (
            (RETRY, retry, "Puts dead letters back among the jobs, each under its id."),
            (DELETE, delete, "Removes dead letters permanently."),
        )
    ),
)
"""The endpoints."""
