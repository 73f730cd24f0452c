"""One job: its page, its raw JSON and its logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from riverui.domain.jobs import FINALIZED, WAITING, JobShowRow, JobState
from riverui.domain.numbers import is_bigint
from riverui.errors import NotFound
from riverui.storage.params import Field
from riverui.web import diagnosis, outcomes, query, timeline
from riverui.web.dashboard import dashboard
from riverui.web.listing import search_url
from riverui.web.render import respond
from riverui.web.timeline import Attempt, Step
from riverui.web.urls import url

_RAW = ("args", "errors", "job", "metadata", "output")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsShow:
    """One job."""

    template: ClassVar[str] = "jobs/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"job": "jobs/_job.html"}

    job: JobShowRow
    steps: tuple[Step, ...]
    attempts: tuple[Attempt, ...]
    """Newest first."""
    actions: tuple[str, ...]
    """Verbs that fit the state and the viewer's rights: of retry, cancel, delete."""
    stuck: str | None
    """Why a running job looks stuck, in words; None when it does not."""
    waiting: str | None
    """Why a waiting job is not worked yet, where that can be told (queue paused or unserved, due later)."""
    final: bool
    """Nothing will change any more: live refresh may stop."""
    self_url: str
    back_url: str
    kind_url: str
    queue_url: str
    tag_urls: Mapping[str, str]
    worker_urls: Mapping[str, str]


async def show(request: Request) -> Response:
    """One job."""
    board = dashboard(request)
    job_id = _path_id(request)
    queue = leader = None
    async with board.driver.reading() as executor:
        job = await executor.job_get(job_id)
        if job is None:
            raise NotFound(_no_job(job_id))
        if job.state in WAITING:
            queue = await executor.queue_get(job.queue, cap=1_000)
        if job.state in (JobState.SCHEDULED, JobState.RETRYABLE):
            leader = await executor.leader_get()
        served = await executor.queue_row_get(job.queue) if job.state is JobState.RUNNING else None
    now = datetime.now(UTC)
    return respond(
        request,
        JobsShow(
            job=job,
            steps=timeline.steps(job, now),
            attempts=timeline.attempts(job, now),
            actions=outcomes.allowed(request, (job.state,)),
            stuck=diagnosis.stuck(job, served, now),
            waiting=diagnosis.waiting(job, queue, leader, now),
            final=job.state in FINALIZED,
            self_url=url(request, "jobs.show", id=job.id),
            back_url=url(request, "jobs.index") + f"?state={job.state.value}",
            kind_url=search_url(request, query.term(Field.KIND, job.kind)),
            queue_url=url(request, "queues.show", name=job.queue),
            tag_urls={tag: search_url(request, query.term(Field.TAG, tag)) for tag in job.tags},
            worker_urls={
                worker: search_url(request, query.term(Field.WORKER, worker)) for worker in job.attempted_by
            },
        ),
    )


async def raw(request: Request) -> Response:
    """One JSON field of a job, or the whole job, as text."""
    job_id, field = _path_id(request), request.path_params["field"]
    if field not in _RAW:
        raise NotFound
    async with dashboard(request).driver.reading() as executor:
        text = await executor.job_get_text(job_id, field)
    if text is None:
        raise NotFound(f"Job {job_id} is not there, or has no {field}.")
    return PlainTextResponse(text)


async def log(request: Request) -> Response:
    """The whole log of one attempt as text."""
    job_id, attempt = _path_id(request), request.path_params["attempt"]
    text = None
    if is_bigint(attempt):
        async with dashboard(request).driver.reading() as executor:
            text = await executor.job_get_log(job_id, attempt)
    if text is None:
        raise NotFound(f"Job {job_id} is not there, or its attempt {attempt} left no log.")
    return PlainTextResponse(text)


def _path_id(request: Request) -> int:
    job_id: int = request.path_params["id"]
    if not is_bigint(job_id):
        raise NotFound(_no_job(job_id))
    return job_id


def _no_job(job_id: int) -> str:
    return (
        f"There is no job {job_id}. It may have been deleted: River's cleaner removes completed and "
        "cancelled jobs after a day, and discarded ones after a week, unless it is told otherwise."
    )
