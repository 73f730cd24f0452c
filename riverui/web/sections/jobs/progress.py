"""The endpoint of the progress of a group of jobs."""

from __future__ import annotations

from typing import Annotated, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, QueryTimeout
from riverui.storage.interface.params import Field, JobFilter, JobProgress
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter
from riverui.web.api.job_models import States
from riverui.web.api.models import Count, Model
from riverui.web.api.selection import Q, searched
from riverui.web.http.context import dashboard
from riverui.web.http.request_context import only
from riverui.web.search import json_terms, query

_WINDOW = 500_000
"""Rows to scan if no index finds the group; `search_window` if that takes too long."""
_TAGS = 10
"""Most tags in a request."""
_FAILED = (JobState.DISCARDED, JobState.CANCELLED)


class Progress(Model, frozen=True, kw_only=True):
    """The progress of a group of jobs."""

    total: Count
    completed: Count
    failed: Annotated[Count, Meta(description="Discarded and cancelled jobs.")]
    running: Count
    pending: Annotated[Count, Meta(description="Jobs that will still run: all others.")]
    exact: Annotated[bool, Meta(description="False if there may be more jobs than were found.")]
    states: States

    @classmethod
    def example(cls) -> Self:
        """Return a group of 4,000 jobs, some two fifths of them completed."""
        counts = dict.fromkeys(JobState, 0) | {
            JobState.AVAILABLE: 2469,
            JobState.COMPLETED: 1523,
            JobState.DISCARDED: 2,
            JobState.RETRYABLE: 1,
            JobState.RUNNING: 5,
        }
        return cls(
            total=4000,
            completed=1523,
            failed=2,
            running=5,
            pending=2470,
            exact=True,
            states=States.from_counts(counts),
        )


async def index(request: Request) -> Response:
    """Answer how many of the group's jobs completed, failed, are running or still wait."""
    found = await _progress(request, _group(request))
    total = sum(found.counts.values())
    completed, running = found.counts[JobState.COMPLETED], found.counts[JobState.RUNNING]
    failed = sum(found.counts[state] for state in _FAILED)
    return serializers.reply(
        Progress(
            total=total,
            completed=completed,
            failed=failed,
            running=running,
            pending=total - completed - failed - running,
            exact=found.exact,
            states=States.from_counts(found.counts),
        )
    )


async def _progress(request: Request, group: JobFilter) -> JobProgress:
    board = dashboard(request)
    try:
        async with board.driver.reading() as executor:
            return await executor.jobs.progress(group, window=_WINDOW)
    except QueryTimeout:
        async with board.driver.reading() as executor:
            return await executor.jobs.progress(group, window=board.config.search_window)


def _group(request: Request) -> JobFilter:
    """Return the filter of the group. Raises BadRequest if no parameter narrows it."""
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
    """Return a JSON value as a parameter can name it: 42 is the number or the text."""
    plain, text = query.value_text(value), json_terms.quoted(value)
    return plain if plain == text else f"{plain},{text}"


ENDPOINT = Endpoint(
    "GET",
    "/api/progress",
    "api.progress",
    "jobs.read",
    index,
    Description(
        group="Jobs",
        summary="Progress of a group of jobs. Jobs must match every parameter; give at least one.",
        answer=Progress,
        parameters=(
            Parameter(name="tag", summary="A tag of the group.", type=list[str], max_items=_TAGS),
            Q,
            Parameter(
                name="metadata.KEY",
                summary="A value at a dotted path, such as metadata.batch.id=42, or args.KEY.",
            ),
        ),
        extension=True,
    ),
)
