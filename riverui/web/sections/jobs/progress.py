"""How far a group of jobs is."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, QueryTimeout
from riverui.storage.interface.params import Field, JobFilter, JobProgress
from riverui.web.api import requests, serializers
from riverui.web.api.selection import searched
from riverui.web.http.context import dashboard
from riverui.web.http.urls import only
from riverui.web.search import json_terms, query

_WINDOW = 500_000
"""Rows that are looked at where no index finds the group; fewer where the time does not suffice."""
_TAGS = 10
_FAILED = (JobState.DISCARDED, JobState.CANCELLED)


async def index(request: Request) -> Response:
    """The group's jobs, counted by what became of them."""
    found = await _progress(request, _group(request))
    total = sum(found.counts.values())
    completed, running = found.counts[JobState.COMPLETED], found.counts[JobState.RUNNING]
    failed = sum(found.counts[state] for state in _FAILED)
    return serializers.reply(
        {
            "total": total,
            "completed": completed,
            "failed": failed,
            "running": running,
            "pending": total - completed - failed - running,
            "exact": found.exact,
            "states": dict(sorted((state.value, number) for state, number in found.counts.items())),
        }
    )


async def _progress(request: Request, group: JobFilter) -> JobProgress:
    board = dashboard(request)
    try:
        async with board.driver.reading() as executor:
            return await executor.job_progress(group, window=_WINDOW)
    except QueryTimeout:
        async with board.driver.reading() as executor:
            return await executor.job_progress(group, window=board.config.search_window)


def _group(request: Request) -> JobFilter:
    """The jobs meant; BadRequest where nothing tells which."""
    keys = [name for name in request.query_params if name.startswith(("metadata.", "args."))]
    only(request, "q", many=("tag", *keys))
    texts = [requests.first(request, "q")]
    texts += [query.term(Field.TAG, tag) for tag in requests.listed(request, "tag", _TAGS)]
    for name, value in request.query_params.multi_items():
        if name.startswith(("metadata.", "args.")):
            texts.append(f"{name}:{_either(value)}")
    text = " ".join(filter(None, texts))
    if not text:
        raise BadRequest("Say which jobs: by tag, by metadata.KEY=VALUE, or by a search text q.")
    group = searched(text, ())
    if not group.terms and not group.states:
        raise BadRequest("Say which jobs: this matches every job.")
    return group


def _either(value: str) -> str:
    """A JSON value as a parameter can name it: 42 is the number or the text."""
    plain, text = query.value_text(value), json_terms.quoted(value)
    return plain if plain == text else f"{plain},{text}"
