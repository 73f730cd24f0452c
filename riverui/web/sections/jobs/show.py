"""One job: its page, its raw JSON and its logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from riverui.actions.explain import explain_row
from riverui.actions.report_list import HOLDS
from riverui.actions.verbs import JobVerb
from riverui.domain.explain.explanation import stuck
from riverui.domain.findings import Diagnosis, Result
from riverui.domain.jobs import (
    FINALIZED,
    MAX_NAME,
    WAITING,
    JobShowRow,
    JobState,
    JsonText,
)
from riverui.domain.queues import QueueRow
from riverui.domain.sealed_args import sealed_args
from riverui.domain.values import is_bigint
from riverui.errors import DatabaseError, NotFound, QueryTimeout
from riverui.storage.interface import Executor
from riverui.storage.interface.params import Field, TextPiece
from riverui.web.http.context import access, dashboard
from riverui.web.http.pieces import PIECE_BYTES, whole_text
from riverui.web.http.request_context import url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url, new_job_url
from riverui.web.sections.jobs.list_menus import allowed
from riverui.web.sections.jobs.usual import BesideUsual, beside_usual
from riverui.web.view import timeline
from riverui.web.view.contributions import AttemptsLink
from riverui.web.view.facts import fact
from riverui.web.view.finding_links import check_links
from riverui.web.view.render import respond
from riverui.web.view.timeline import JobAttempt, Step

_RAW_FIELDS = ("args", "errors", "job", "metadata", "output")
"""Fields that can be read as text; `job` is the whole row."""
DECRYPT = "jobs.decrypt"
"""The right to open encrypted args."""
_ATTEMPT = re.compile(r"-?[0-9]{1,18}")
"""The number of an attempt; rows written by other programs may hold any bigint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedArgs:
    """The result of opening encrypted args."""

    args: JsonText | None
    """None if they could not be opened."""
    problem: str
    """Why they could not be opened; empty if they were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsShow:
    """The page of one job."""

    template: ClassVar[str] = "jobs/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"job": "jobs/_job.html"}
    raw_route: ClassVar[str] = "jobs.raw"
    """The route of its whole JSON."""
    log_route: ClassVar[str] = "jobs.log"
    """The route of an attempt's whole log; empty if there is none."""

    job: JobShowRow
    steps: tuple[Step, ...]
    attempts: tuple[tuple[JobAttempt, ...], ...]
    """Newest first, in groups of the same error."""
    actions: tuple[JobVerb, ...]
    """Verbs that fit the state and the viewer's rights."""
    stuck: str | None
    """Why a running job looks stuck, in words; None if it does not."""
    waiting: str
    """Why a waiting job is not worked yet: the headline of its explanation; empty if it is only not
    due yet.
    """
    explanation: Diagnosis | None
    """The checks of a job that waits or looks stuck; None for other jobs."""
    unread: str
    """Why the queue of a running job could not be read; empty if it was."""
    final: bool
    """Whether live refresh can stop, as nothing will change any more."""
    self_url: str
    back_url: str
    kind_url: str
    queue_url: str
    tag_urls: Mapping[str, str]
    like_url: str
    """The form for a new job like this one; empty for viewers who cannot insert jobs."""
    edit_url: str
    """The form to retry the job with changes; empty unless it has ended or is retryable."""
    compare_url: str
    """The comparison with the last successful job of its kind; empty for a job that completed or
    waits for its first attempt.
    """
    usual: tuple[BesideUsual, ...]
    """How long it waited and ran compared with what is usual, if that is known."""
    attempts_links: tuple[AttemptsLink, ...]
    """Links that sections add to its attempts."""
    worker_urls: Mapping[str, str]
    """Searches for the jobs of a worker, by each name that is not cut."""
    earlier: int = 0
    """How many attempts are older than those shown."""
    cards: tuple[tuple[str, object], ...]
    """Cards that sections add: a template, and the value that it draws as `card`."""
    check_links: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Links of the explanation's checks, by the name of the check: address and label."""
    too_large: bool = False
    """Whether the row's JSON is left out because it could not be read in time."""
    open_url: str = ""
    """The address that opens its args; empty unless they are encrypted and this viewer may open
    them.
    """
    opened: OpenedArgs | None = None
    """Its opened args, if this viewer has asked to open them."""


async def show(request: Request) -> Response:
    """Answer with the page of one job, or with its live part.

    Its queue and its explanation are read only if it is running or waiting, and left out if they
    cannot be read. A job that is kept as a dead letter redirects there. Raises NotFound if there is
    no such job.
    """
    job_id = path_id(request)
    try:
        job, too_large = await _job(request, job_id)
    except NotFound:
        keeping = dashboard(request).sections.job_keeping
        if keeping is not None and (page := await keeping.page(request, job_id)):
            return RedirectResponse(page, status_code=302)
        raise
    return await answer(request, job, too_large=too_large)


async def answer(
    request: Request, job: JobShowRow, *, too_large: bool = False, opened: OpenedArgs | None = None
) -> Response:
    """Answer with the page of this job; a page with opened args does not refresh itself."""
    board = dashboard(request)
    now, queue, explanation = datetime.now(UTC), None, None
    if job.state is JobState.RUNNING:
        queue = await fact(board.driver, lambda executor: executor.queues.row_get(job.queue))
    why_stuck = stuck(job, queue if isinstance(queue, QueueRow) else None, now)
    if why_stuck or job.state in WAITING:
        explanation = await explain_row(board.driver, job, HOLDS)
    attempts = timeline.attempts(job, now)
    links = [find(request, job) for find in board.sections.attempts_links]
    cards = [(card.template, await card.read(request, job)) for card in board.sections.job_cards]
    return respond(
        request,
        JobsShow(
            job=job,
            steps=timeline.steps(job, now),
            attempts=timeline.grouped(attempts),
            cards=tuple((template, card) for template, card in cards if card is not None),
            check_links=check_links(request, explanation.checks if explanation else ()),
            earlier=timeline.attempt_count(job) - len(attempts),
            too_large=too_large,
            open_url=_open_url(request, job),
            opened=opened,
            actions=allowed(request, (job.state,)),
            stuck=why_stuck,
            waiting=explanation.headline
            if explanation and not why_stuck and not _early(explanation, job, now)
            else "",
            explanation=explanation,
            unread=queue.public if isinstance(queue, DatabaseError) else "",
            final=job.state in FINALIZED or opened is not None,
            self_url=url(request, "jobs.show", id=job.id),
            back_url=url(request, "jobs.index") + f"?state={job.state.value}",
            kind_url=jobs_url(request, (query.equal(Field.KIND, job.kind),)),
            queue_url=url(request, "queues.show", name=job.queue),
            tag_urls={tag: jobs_url(request, (query.equal(Field.TAG, tag),)) for tag in job.tags},
            like_url=new_job_url(request, like=str(job.id)),
            edit_url=new_job_url(request, like=str(job.id), edit="1")
            if job.state in FINALIZED or job.state is JobState.RETRYABLE
            else "",
            compare_url=url(request, "jobs.compare", id=job.id)
            if job.attempt and job.state is not JobState.COMPLETED
            else "",
            usual=await beside_usual(request, job, now),
            attempts_links=tuple(link for link in links if link is not None),
            worker_urls={
                worker: jobs_url(request, (query.equal(Field.WORKER, worker),))
                for worker in reversed(job.attempted_by)
                if len(worker) <= MAX_NAME
            },
        ),
    )


def _early(explanation: Diagnosis, job: JobShowRow, now: datetime) -> bool:
    """Return whether the job is held up by nothing but its time."""
    causes = [check.name for check in explanation.checks if check.result is Result.FAILED]
    return causes[:1] == ["due"] and job.scheduled_at > now


def _open_url(request: Request, job: JobShowRow) -> str:
    """Return the address that opens the job's args; empty if this viewer cannot open them."""
    able = dashboard(request).config.encryption_keys is not None and access(request).may(DECRYPT)
    if not able or sealed_args(job.args.text) is None:
        return ""
    return url(request, "jobs.opened", id=job.id)


async def raw(request: Request) -> Response:
    """Answer with one JSON field of a job, or the whole job, as text.

    Raises NotFound if there is no such job or it has no such field.
    """
    job_id, field = path_id(request), request.path_params["field"]
    if field not in _RAW_FIELDS:
        raise NotFound
    missing = f"Job {job_id} not found, or it has no {field}."
    return await whole_text(request, missing, partial(_field_piece, job_id, field))


async def log(request: Request) -> Response:
    """Answer with the whole log of one attempt as text; attempt 0 has the lines without an attempt.

    Raises NotFound if there is no such job or attempt.
    """
    job_id, attempt = path_id(request), request.path_params["attempt"]
    if not _ATTEMPT.fullmatch(attempt):
        raise NotFound
    missing = f"Job {job_id} not found, or its attempt {attempt} has no log."
    return await whole_text(request, missing, partial(_log_piece, job_id, int(attempt)))


async def _job(request: Request, job_id: int) -> tuple[JobShowRow, bool]:
    """Return the job, and whether its JSON had to be left out to read it in time."""
    driver, too_large = dashboard(request).driver, False
    try:
        async with driver.reading() as executor:
            job = await executor.jobs.get(job_id)
    except QueryTimeout:
        too_large = True
        async with driver.reading() as executor:
            job = await executor.jobs.get(job_id, lean=True)
    if job is None:
        raise NotFound(no_job(job_id))
    return job, too_large


async def _field_piece(job_id: int, field: str, executor: Executor, start: int) -> TextPiece | None:
    return await executor.jobs.text_piece(job_id, field, start=start, size=PIECE_BYTES)


async def _log_piece(job_id: int, attempt: int, executor: Executor, start: int) -> TextPiece | None:
    return await executor.jobs.log_piece(job_id, attempt, start=start, size=PIECE_BYTES)


def path_id(request: Request) -> int:
    """Return the id in the address. Raises NotFound if it is not a bigint."""
    job_id: int = request.path_params["id"]
    if not is_bigint(job_id):
        raise NotFound(no_job(job_id))
    return job_id


def no_job(job_id: int) -> str:
    """Return the message that there is no such job."""
    return (
        f"Job not found: {job_id}. It may have been deleted: River's cleaner removes completed and "
        "cancelled jobs after a day, and discarded ones after a week, unless configured otherwise. "
        "Ephemeral jobs are removed as soon as they complete."
    )
