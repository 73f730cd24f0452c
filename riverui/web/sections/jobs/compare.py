"""A comparison of one job with the last successful job of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.json import JsonDiff, json_diff
from riverui.domain.sealed_args import sealed_args
from riverui.domain.time import duration
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest, NotFound
from riverui.storage.interface.params import Field, JobFilter, JobOrder, JobPageParams, Op, Term
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search import query
from riverui.web.view.redaction import Redaction
from riverui.web.view.render import respond

_READ = 100_000
"""Characters of args, and of metadata, that are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsCompare:
    """A job compared with another one."""

    template: ClassVar[str] = "jobs/compare.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    job: JobShowRow
    other: JobShowRow | None
    """None if no completed job of its kind was found."""
    facts: tuple[tuple[str, str, str], ...]
    """Other properties that differ: name, value of the other job, value of this job."""
    args: JsonDiff | None
    metadata: JsonDiff | None
    sealed: tuple[str, str] | None
    """Descriptions of the args of the other job and of this one, if any are encrypted: then they
    are not compared.
    """
    cut: bool
    """Whether args or metadata are longer than what was compared."""
    job_url: str
    other_url: str


async def show(request: Request) -> Response:
    """Answer with the differences from the job named in the address, else from the last job of the
    kind that completed before this one began.
    """
    only(request, "with")
    job = await _job(request, request.path_params["id"])
    text = request.query_params.get("with", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadRequest("A job id must be a whole number.")
    good = int(text) if text else await _last_good(request, job)
    other = await _job(request, good) if good is not None else None
    redaction = Redaction(dashboard(request).config.redact_keys)
    sealed = _sealed(other, job) if other else None

    def diff(before: str, after: str) -> JsonDiff:
        return json_diff(redaction.text(before), redaction.text(after))

    return respond(
        request,
        JobsCompare(
            job=job,
            other=other,
            facts=_facts(other, job) if other else (),
            args=diff(other.args.text, job.args.text) if other and not sealed else None,
            sealed=sealed,
            metadata=diff(other.metadata.text, job.metadata.text) if other else None,
            cut=other is not None
            and not all(
                found.complete for found in (job.args, job.metadata, other.args, other.metadata)
            ),
            job_url=url(request, "jobs.show", id=job.id),
            other_url=url(request, "jobs.show", id=other.id) if other else "",
        ),
    )


def _sealed(before: JobShowRow, after: JobShowRow) -> tuple[str, str] | None:
    """Return descriptions of the args of both jobs; None if none are encrypted."""
    found = [sealed_args(job.args.text, job.args.size) for job in (before, after)]
    if found == [None, None]:
        return None
    first, second = ("not sealed" if one is None else one.words for one in found)
    return first, second


async def _job(request: Request, job_id: int) -> JobShowRow:
    job = None
    if is_bigint(job_id):
        async with dashboard(request).driver.reading() as executor:
            job = await executor.jobs.get(job_id, cut=_READ)
    if job is None:
        raise NotFound(f"Job not found: {job_id}.")
    return job


async def _last_good(request: Request, job: JobShowRow) -> int | None:
    """Return the id of the last job of the same kind that completed before this one began."""
    board = dashboard(request)
    terms = [query.equal(Field.KIND, job.kind)]
    if job.attempted_at is not None:
        terms.append(Term(field=Field.FINISHED, op=Op.LT, values=(job.attempted_at,)))
    wanted = JobPageParams(
        filter=JobFilter(states=(JobState.COMPLETED,), terms=tuple(terms)),
        order=JobOrder.TIME_DESC,
        limit=2,
        lean=True,
        window=board.config.search_window,
    )
    async with board.driver.reading() as executor:
        page = await executor.jobs.list(wanted)
    return next((row.id for row in page.rows if row.id != job.id), None)


def _facts(before: JobShowRow, after: JobShowRow) -> tuple[tuple[str, str, str], ...]:
    lines = ((name, _fact(name, before), _fact(name, after)) for name in _FACTS)
    return tuple(line for line in lines if line[1] != line[2])


_FACTS = ("queue", "priority", "attempt", "of attempts", "tags", "waited", "ran", "worked by")


def _fact(name: str, job: JobShowRow) -> str:
    """Return one property of a job as text."""
    match name:
        case "queue":
            return job.queue
        case "priority":
            return str(job.priority)
        case "attempt":
            return str(job.attempt)
        case "of attempts":
            return str(job.max_attempts)
        case "tags":
            return ", ".join(job.tags) or "none"
        case "waited":
            return _span(job.scheduled_at, job.attempted_at)
        case "ran":
            return _span(job.attempted_at, job.finalized_at)
        case _:
            return job.attempted_by[-1] if job.attempted_by else "none"


def _span(begin: datetime | None, end: datetime | None) -> str:
    if begin is None or end is None:
        return "–"
    return duration(max(timedelta(0), end - begin))


ROUTES = (
    GuardedRoute("GET", "/jobs/{id:river_bigint}/compare", "jobs.compare", "jobs.read", show),
)
"""The comparison."""
