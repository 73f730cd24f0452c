"""Inserting a job: its form, the check of its args while they are typed, and the insert."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import new_jobs as actions
from riverui.actions.new_jobs import JobInserter, NewJob
from riverui.domain.jobs import JobShowRow
from riverui.domain.sealed_args import is_sealed
from riverui.domain.values import is_bigint
from riverui.errors import BadRequest, DatabaseError, JobRefused, NotFound, NotSupported
from riverui.storage.interface.engine_params import InsertResult
from riverui.storage.interface.params import Field, JobFilter, JobPageParams
from riverui.web.http.context import access, dashboard, need
from riverui.web.http.cookies import Notice
from riverui.web.http.forms import Form, form
from riverui.web.http.request_context import only, url
from riverui.web.http.routes import GuardedRoute
from riverui.web.search import query
from riverui.web.sections.jobs import new_form
from riverui.web.sections.jobs.new_form import NewJobForm
from riverui.web.view.facts import fact
from riverui.web.view.notices import done
from riverui.web.view.redaction import Redaction
from riverui.web.view.render import respond

log = logging.getLogger("riverui.actions")

RIGHT = "jobs.insert"
"""The right to insert jobs."""
_PREFILLED = 100_000
"""Longest args to fill in from another job, in characters: longer ones are hard to edit in a
browser.
"""
_MOST_SEALED = 2_000_000
"""Longest encrypted args to copy from another job, in characters."""
_MOST_KINDS = 100
"""Most kinds, and most queues, that the form suggests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsNew:
    """The form of a new job."""

    template: ClassVar[str] = "jobs/new.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    form: NewJobForm
    allowed: bool = True
    """Whether the viewer may insert jobs; if not, the page says so."""
    like: int | None = None
    """The id of the job that it was filled in from."""
    edit: bool = False
    """Whether the form is to retry that job with changes."""
    notes: tuple[str, ...] = ()
    """Sentences about what was not filled in."""
    problem: str = ""
    """Why the job was not inserted."""
    field: str = ""
    """The invalid field; empty if the problem is not about one."""
    kinds: Sequence[str] = ()
    queues: Sequence[str] = ()
    counted: tuple[str, ...] = tuple(state.value for state in new_form.COUNTED)
    chosen: tuple[str, ...] = tuple(state.value for state in new_form.CHOSEN)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobsNewCheck:
    """The check of the args typed so far."""

    template: ClassVar[str] = "jobs/_new_check.html"
    fragments: ClassVar[Mapping[str, str]] = {}

    problem: str


async def show(request: Request) -> Response:
    """Answer with the form, filled in from the job `like`, or from the newest one of `kind`;
    viewers without the right to insert jobs see a note instead.
    """
    only(request, "kind", "like", "edit")
    if not access(request).may(RIGHT):
        return respond(request, JobsNew(form=NewJobForm(), allowed=False))
    inserter(request)
    params = request.query_params
    if text := params.get("like"):
        job = await _job(request, _id(text))
        return await _answer(request, job, edit=params.get("edit") == "1")
    kind = params.get("kind", "")
    return await _newest(request, NewJobForm(kind=kind)) if kind else await _answer(request, None)


async def create(request: Request) -> Response:
    """Insert the job that was filled in, or fill the form in from the newest one of its kind."""
    engine, fields = inserter(request), await form(request)
    filled = new_form.posted(fields)
    if fields.get("fill") == "1":
        need(request, "jobs.read")
        return await _newest(request, filled)
    like = _like(fields)
    try:
        meant = await _with_sealed_args(request, filled, like)
        job = new_form.read(meant, _redaction(request), datetime.now(UTC))
        result = await insert(request, engine, job, like=like)
    except JobRefused as refused:
        page = await _page(
            request,
            filled,
            like=like,
            edit=fields.get("edit") == "1",
            problem=str(refused),
            field=refused.field,
        )
        return respond(request, page, status=400)
    return _inserted(request, result)


async def check(request: Request) -> Response:
    """Answer with what is wrong with the args typed so far."""
    engine, fields = inserter(request), await form(request)
    filled = new_form.posted(fields)
    problem = ""
    if filled.args == new_form.COPIED_ARGS:
        return respond(request, JobsNewCheck(problem=problem))
    try:
        actions.check(engine, NewJob(kind=filled.kind or "any_kind", args=filled.args))
    except JobRefused as refused:
        # Errors in other fields are shown when the form is sent.
        problem = str(refused) if refused.field == "args" else ""
    return respond(request, JobsNewCheck(problem=problem))


async def insert(
    request: Request, engine: JobInserter, job: NewJob, *, like: int | None = None
) -> InsertResult:
    """Insert a job for the viewer and log it. Raises JobRefused if the job is invalid."""
    user = access(request).user
    result = await actions.insert(engine, job, user=user, like=like)
    dashboard(request).counts.expire()
    log.info(
        "insert by %r: job %d of kind %r%s%s",
        user,
        result.job.id,
        job.kind,
        "" if like is None else f" like {like}",
        ", existed already" if result.unique_skipped_as_duplicate else "",
    )
    return result


def inserter(request: Request) -> JobInserter:
    """Return the job inserter. Raises NotSupported if this dashboard has none."""
    if (found := dashboard(request).inserter) is None:
        raise NotSupported("This dashboard cannot insert jobs.")
    return found


def _inserted(request: Request, result: InsertResult) -> Response:
    """Redirect to the job."""
    job_id = result.job.id
    at = url(request, "jobs.show", id=job_id)
    if result.unique_skipped_as_duplicate:
        notice = Notice(
            level="warning",
            title=f"Nothing was inserted: job {job_id} exists already",
            details=(f"It has the same unique properties and is {result.job.state.value}.",),
            link=(f"Job {job_id}", at),
        )
    else:
        notice = Notice(level="success", title=f"Job {job_id} inserted")
    return done(request, notice, next=at)


async def _newest(request: Request, filled: NewJobForm) -> Response:
    """Answer with the form filled in from the newest job of its kind."""
    note = f"There is no job of kind {filled.kind[:100]} to copy."
    if not filled.kind:
        note = "Enter a kind first."
    else:
        wanted = JobPageParams(
            filter=JobFilter(terms=(query.equal(Field.KIND, filled.kind),)), limit=1
        )
        page = await fact(dashboard(request).driver, lambda executor: executor.jobs.list(wanted))
        if isinstance(page, DatabaseError):
            note = "The newest job of this kind could not be read in time."
        elif page.rows:
            return await _answer(request, await _job(request, page.rows[0].id))
    return respond(request, await _page(request, filled, notes=(note,)))


async def _answer(request: Request, job: JobShowRow | None, *, edit: bool = False) -> Response:
    filled = NewJobForm()
    notes: tuple[str, ...] = ()
    if job is not None:
        filled, notes = new_form.like(job, _redaction(request))
    like = None if job is None else job.id
    return respond(request, await _page(request, filled, like=like, edit=edit, notes=notes))


async def _page(
    request: Request,
    filled: NewJobForm,
    *,
    notes: tuple[str, ...] = (),
    like: int | None = None,
    edit: bool = False,
    problem: str = "",
    field: str = "",
) -> JobsNew:
    kinds: Sequence[str] = ()
    queues: Sequence[str] = ()
    if access(request).may("jobs.read"):
        driver = dashboard(request).driver
        found = [
            await fact(driver, lambda executor: executor.jobs.kind_list(limit=_MOST_KINDS)),
            await fact(driver, lambda executor: executor.queues.name_list(limit=_MOST_KINDS)),
        ]
        kinds, queues = (() if isinstance(names, DatabaseError) else names for names in found)
    return JobsNew(
        form=filled,
        like=like,
        edit=edit,
        notes=notes,
        problem=problem,
        field=field,
        kinds=kinds,
        queues=queues,
    )


async def _job(request: Request, job_id: int) -> JobShowRow:
    async with dashboard(request).driver.reading() as executor:
        job = await executor.jobs.get(job_id, cut=_PREFILLED)
    if job is None:
        raise NotFound(f"Job not found: {job_id}.")
    return job


async def _with_sealed_args(request: Request, filled: NewJobForm, like: int | None) -> NewJobForm:
    """Return the form with the encrypted args of the job that it was filled in from, if it is to
    copy them. Raises JobRefused if that job has none.
    """
    if filled.args != new_form.COPIED_ARGS:
        return filled
    need(request, "jobs.read")
    job = None
    if like is not None and is_bigint(like):
        async with dashboard(request).driver.reading() as executor:
            job = await executor.jobs.get(like, cut=_MOST_SEALED)
    if job is None or not job.args.complete or not is_sealed(job.args.text):
        raise JobRefused("There are no encrypted args to copy: enter the args.", field="args")
    return replace(filled, args=job.args.text)


def _like(fields: Form) -> int | None:
    text = fields.get("like", "")
    return _id(text) if text else None


def _id(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19 or not is_bigint(int(text)):
        raise BadRequest("A job id must be a whole number.")
    return int(text)


def _redaction(request: Request) -> Redaction:
    return Redaction(dashboard(request).config.redact_keys)


ROUTES = (
    GuardedRoute("GET", "/jobs/new", "jobs.new", "jobs.read", show),
    GuardedRoute("POST", "/jobs/new", "jobs.create", RIGHT, create),
    GuardedRoute("POST", "/jobs/new/check", "jobs.new_check", RIGHT, check),
)
"""The form, what it sends, and the check of its args."""
