"""Jobs: the list, one job, and the verbs for chosen ones."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import jobs as actions
from riverui.actions.jobs import MAX_IDS, Verb
from riverui.domain.jobs import FINALIZED, JobMinimalRow, JobState
from riverui.errors import BadRequest, NotFound, QueryTimeout
from riverui.storage.params import Field, JobFilter, JobListParams, JobMinimalPage, JobOrder, Op, Term
from riverui.web.access import access
from riverui.web.api import requests, shapes
from riverui.web.dashboard import dashboard

log = logging.getLogger("riverui.actions")

_LIMIT = 20
_NAMES = {"kinds": (Field.KIND, 100), "queues": (Field.QUEUE, 100), "tags": (Field.TAG, 100)}
"""Parameters that are names: the field that they filter and how many there may be."""
_PRIORITIES = 10
_SMALLINT = 2**15


async def index(request: Request) -> Response:
    """Jobs of one state, running ones unless another is named, in River UI's order."""
    state = _state(requests.first(request, "state"))
    wanted = JobListParams(
        filter=JobFilter(states=(state or JobState.RUNNING,), terms=_terms(request)),
        order=_order(state),
        limit=requests.limit(request, _LIMIT),
        window=dashboard(request).config.search_window,
    )
    rows = await _rows(request, wanted)
    return shapes.reply(shapes.listing([shapes.job_minimal(row) for row in rows]))


async def show(request: Request) -> Response:
    """One job with its errors and metadata."""
    job_id = requests.integer(request.path_params["job_id"])
    if job_id is None:
        raise BadRequest("A job's id is a whole number.")
    async with dashboard(request).driver.reading() as executor:
        row = await executor.job_text_get(job_id)
    if row is None:
        raise NotFound(f"There is no job {job_id}.")
    return shapes.reply(shapes.job(row))


async def cancel(request: Request) -> Response:
    """Cancels jobs, all or none; running ones are asked to stop."""
    return await _act(request, Verb.CANCEL)


async def delete(request: Request) -> Response:
    """Deletes jobs, all or none."""
    return await _act(request, Verb.DELETE)


async def retry(request: Request) -> Response:
    """Makes jobs available now, all or none."""
    return await _act(request, Verb.RETRY)


async def _act(request: Request, verb: Verb) -> Response:
    board = dashboard(request)
    ids = requests.ids(await requests.payload(request))
    changes = await actions.apply_whole(board.driver, verb, ids, time_limit=board.config.action_timeout)
    board.counts.expire()
    log.info(
        "%s by %r: %d changed, %d requested of jobs %s",
        verb.value,
        access(request).user,
        len(changes.changed),
        len(changes.requested),
        ids[:50],
    )
    return shapes.reply({"status": "ok"})


async def _rows(request: Request, wanted: JobListParams) -> list[JobMinimalRow]:
    """As many rows as there are, however far the search has to go. QueryTimeout."""
    if not wanted.limit:
        return []
    patience = dashboard(request).config.page_timeout.total_seconds()
    ends_at = time.monotonic() + patience
    rows: list[JobMinimalRow] = []
    while True:
        page = await _page(request, replace(wanted, limit=wanted.limit - len(rows)))
        rows += page.rows
        if page.searched is None:
            return rows
        if time.monotonic() > ends_at:
            raise QueryTimeout(f"Only a part of the jobs could be searched in {patience:g} s.")
        wanted = replace(wanted, cursor=page.searched.resume)


async def _page(request: Request, wanted: JobListParams) -> JobMinimalPage:
    async with dashboard(request).driver.reading() as executor:
        return await executor.job_minimal_list(wanted)


def _terms(request: Request) -> tuple[Term, ...]:
    terms = []
    if ids := requests.listed(request, "ids", MAX_IDS):
        terms.append(_equal(Field.ID, tuple(requests.integer(text) or 0 for text in ids)))
    for name, (field, most) in _NAMES.items():
        if values := requests.listed(request, name, most):
            terms.append(_equal(field, tuple(values)))
    if priorities := requests.listed(request, "priorities", _PRIORITIES):
        found = [requests.integer(text) or 0 for text in priorities]
        terms.append(_equal(Field.PRIORITY, tuple(n if -_SMALLINT <= n < _SMALLINT else 0 for n in found)))
    return tuple(terms)


def _equal(field: Field, values: tuple[int | str, ...]) -> Term:
    return Term(field=field, op=Op.EQ, values=values)


def _state(text: str) -> JobState | None:
    if not text:
        return None
    try:
        return JobState(text)
    except ValueError:
        raise BadRequest(f"There is no such state; the states are {', '.join(sorted(JobState))}.") from None


def _order(state: JobState | None) -> JobOrder:
    """The longest running first where no state is named; the latest ended first; all others by id."""
    if state is None:
        return JobOrder.TIME
    return JobOrder.TIME_DESC if state in FINALIZED else JobOrder.ID
