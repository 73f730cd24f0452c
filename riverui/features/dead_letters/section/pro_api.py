"""Dead letters at River UI's own URLs, which River Pro's panel requests."""

from __future__ import annotations

from typing import Annotated, Self

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import RETRY
from riverui.actions.jobs import MAX_IDS
from riverui.domain.jobs import JobTextRow
from riverui.errors import BadRequest, NotFound
from riverui.features.dead_letters import verbs as dead_letters
from riverui.features.dead_letters.domain import DeadJobListRow
from riverui.features.dead_letters.section.missing import missing_table_as
from riverui.features.dead_letters.section.verbs import log_changes
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.storage.interface.engine_params import JobSelectParams
from riverui.web.api import names, requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path
from riverui.web.api.job_models import EXAMPLE_JOB, Digits, Job
from riverui.web.api.models import Count, Id, Model, Time
from riverui.web.api.selection import CHOICE
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only

_GROUP = "River Pro"
_LIMIT, _MOST = 20, 200
"""Dead letters per response: the default and the maximum, as in River UI."""
_CHOICE = {parameter.name: parameter.max_items or 1 for parameter in CHOICE}
"""The parameters that select dead letters, and how often each may be given."""


class ProDeadLetter(Model, frozen=True, kw_only=True):
    """A dead letter in River UI's list."""

    id: Digits
    attempt: Count
    finalized_at: Time | None
    kind: str
    max_attempts: Count
    queue: str

    @classmethod
    def from_row(cls, row: DeadJobListRow) -> Self:
        """Return River UI's model of a row."""
        job = row.job
        return cls(
            id=str(job.id),
            attempt=job.attempt,
            finalized_at=serializers.optional_instant(job.finalized_at),
            kind=job.kind,
            max_attempts=job.max_attempts,
            queue=job.queue,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a mail that could not be sent."""
        return cls(
            id="9381022",
            attempt=25,
            finalized_at="2026-11-14T09:00:00Z",
            kind="mail_send",
            max_attempts=25,
            queue="mail",
        )


class ProDeadLetters(Model, frozen=True, kw_only=True):
    """Dead letters, the highest id first."""

    data: list[ProDeadLetter]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one dead letter."""
        return cls(data=[ProDeadLetter.example()])


class ProDeadLetterJob(Job, frozen=True, kw_only=True):
    """A job whose id is text, as in River UI's answers for dead letters only."""

    id: Digits  # type: ignore[assignment]  # in a job's own answer it is a number

    @classmethod
    def of_dead(cls, row: JobTextRow) -> Self:
        """Return a job, dead or retried."""
        return msgspec.structs.replace(cls.of_text(row), id=str(row.id))

    @classmethod
    def example(cls) -> Self:
        """Return a job that has failed once."""
        return cls.of_dead(EXAMPLE_JOB)


async def index(request: Request) -> Response:
    """Return dead letters by River UI's filters."""
    only(request, "limit", many=tuple(_CHOICE))
    given = {name: requests.listed(request, name, most) for name, most in _CHOICE.items()}
    params = JobSelectParams(
        ids=tuple(map(_number, given["ids"])),
        kinds=tuple(given["kinds"]),
        priorities=tuple(map(_number, given["priorities"])),
        queues=tuple(given["queues"]),
        tags_any=tuple(given["tags"]),
        limit=requests.limit(request, _LIMIT, least=1, most=_MOST),
    )
    async with dashboard(request).driver.reading() as executor:
        letters = DeadLetterStore(executor)
        with missing_table_as(BadRequest):
            rows = await letters.dead_job_select_list(params)
    return serializers.reply(ProDeadLetters(data=[ProDeadLetter.from_row(row) for row in rows]))


async def autocomplete(request: Request) -> Response:
    """Return kinds or queues of dead letters that start with a text."""
    facet, prefix = names.facet(request), requests.first(request, "match")
    exclude = requests.listed(request, "exclude", MAX_IDS)
    async with dashboard(request).driver.reading() as executor:
        letters = DeadLetterStore(executor)
        with missing_table_as(BadRequest):
            kinds, queues = await letters.dead_job_name_list(
                limit=names.MAX_NAMES, prefix=prefix, exclude=exclude
            )
    found = kinds if facet == "job_kind" else queues
    return serializers.reply(names.Names(data=sorted(found)))


async def show(request: Request) -> Response:
    """Return one dead letter with its errors and metadata."""
    job_id = _number(request.path_params["job_id"])
    async with dashboard(request).driver.reading() as executor:
        letters = DeadLetterStore(executor)
        with missing_table_as(BadRequest):
            found = await letters.dead_job_text_get(job_id)
    if found is None:
        raise NotFound(f"Dead letter not found: {job_id}.")
    return serializers.reply(ProDeadLetterJob.of_dead(found[0]))


async def retry(request: Request) -> Response:
    """Put a dead letter back among the jobs, and return that job."""
    await requests.payload(request)
    board, job_id = dashboard(request), _number(request.path_params["job_id"])
    limit = board.config.action_timeout
    async with board.driver.transaction(timeout=limit) as transaction:
        DeadLetterStore(transaction)
        with missing_table_as(BadRequest):
            changes = await dead_letters.retry_tx(
                transaction, [job_id], pilot=board.pilot, time_limit=limit
            )
        dead_letters.check(job_id, changes)
        row = await transaction.jobs.text_get(job_id)
    assert row is not None
    board.counts.expire()
    log_changes(request, RETRY, changes)
    return serializers.reply(ProDeadLetterJob.of_dead(row))


def _number(text: str) -> int:
    found = requests.integer(text)
    if found is None:
        raise BadRequest("Ids and priorities of dead letters must be whole numbers.")
    return found


_JOB_ID = in_path("job_id", "The job's id.", Id)

ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/pro/dead-letter-jobs",
        "api.pro.dead_letters.index",
        "jobs.read",
        index,
        Description(
            group=_GROUP,
            summary="Dead letters, the highest id first.",
            answer=ProDeadLetters,
            parameters=(
                *CHOICE,
                Parameter(
                    name="limit",
                    summary="Maximum number of rows.",
                    type=Annotated[int, Meta(ge=1, le=_MOST)],
                    default=_LIMIT,
                ),
            ),
            fails=(501,),
        ),
    ),
    # Before the URL of one dead letter, whose pattern matches this one too.
    Endpoint(
        "GET",
        "/api/pro/dead-letter-jobs/autocomplete",
        "api.pro.dead_letters.autocomplete",
        "jobs.read",
        autocomplete,
        Description(
            group=_GROUP,
            summary="Up to 100 kinds or queues of dead letters by name.",
            answer=names.Names,
            parameters=(
                names.FACET,
                Parameter(name="match", summary="Names that begin with this, ignoring ASCII case."),
                names.EXCLUDE,
            ),
            fails=(501,),
        ),
    ),
    Endpoint(
        "GET",
        "/api/pro/dead-letter-jobs/{job_id}",
        "api.pro.dead_letters.show",
        "jobs.read",
        show,
        Description(
            group=_GROUP,
            summary="One dead letter with its errors and metadata.",
            answer=ProDeadLetterJob,
            parameters=(_JOB_ID,),
            fails=(404, 501),
        ),
    ),
    Endpoint(
        "POST",
        "/api/pro/dead-letter-jobs/{job_id}/retry",
        "api.pro.dead_letters.retry",
        RETRY.right,
        retry,
        Description(
            group=_GROUP,
            summary="Put a dead letter back among the jobs, under its id.",
            answer=ProDeadLetterJob,
            parameters=(_JOB_ID,),
            fails=(404, 409, 501),
        ),
    ),
)
"""The endpoints."""
