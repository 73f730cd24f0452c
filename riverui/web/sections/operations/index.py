"""Actions on all matching jobs while they run, and what they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import SKIPPED
from riverui.actions.verbs import JobVerb
from riverui.errors import NotFound
from riverui.storage.interface.params import CountKind
from riverui.web.auth.access import access, need
from riverui.web.http.context import dashboard
from riverui.web.http.forms import form
from riverui.web.http.urls import local_path, url
from riverui.web.live.notices import Notice
from riverui.web.live.operations import Operation, Status
from riverui.web.search.addresses import jobs_url
from riverui.web.view.render import done, respond


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationView:
    """One operation as shown."""

    id: str
    verb: JobVerb
    given: tuple[tuple[str, str | int], ...]
    """What the verb was given besides the jobs: labels and values."""
    filter_text: str
    user: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    """running, stopping, done, stopped or failed."""
    total: int
    total_exact: bool
    changed: int
    requested: int
    seen: int
    """Jobs dealt with so far, skipped ones included."""
    skipped: tuple[tuple[str, int, tuple[int, ...]], ...]
    """Why jobs were left as they were, in words; how many; the first few ids."""
    error: str
    url: str
    jobs_url: str
    """The list it was started from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationsIndex:
    """Operations since this process started, newest first."""

    template: ClassVar[str] = "operations/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"operations-list": "operations/_list.html"}

    operations: tuple[OperationView, ...]
    self_url: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationsShow:
    """One operation."""

    template: ClassVar[str] = "operations/show.html"
    fragments: ClassVar[Mapping[str, str]] = {"operation": "operations/_operation.html"}

    operation: OperationView
    self_url: str


async def index(request: Request) -> Response:
    """Answer with the operations of this process."""
    operations = dashboard(request).operations.list()
    return respond(
        request,
        OperationsIndex(
            operations=tuple(_view(request, operation) for operation in operations),
            self_url=url(request, "operations.index"),
        ),
    )


async def show(request: Request) -> Response:
    """Answer with one operation."""
    view = _view(request, _operation(request))
    return respond(request, OperationsShow(operation=view, self_url=view.url))


async def stop(request: Request) -> Response:
    """Stop an operation after the chunk at hand."""
    board, operation = dashboard(request), _operation(request)
    need(request, operation.verb.right)
    posted = await form(request)
    ended = operation.ended
    board.operations.stop(operation, user=access(request).user)
    title = "It had already finished" if ended else "Stopping after the current batch"
    here = url(request, "operations.show", id=operation.id)
    next_url = local_path(request, posted.get("next"), default=here)
    return done(request, Notice(level="info", title=title), next=next_url, changed="operations")


def _operation(request: Request) -> Operation:
    operation = dashboard(request).operations.get(request.path_params["id"])
    if operation is None:
        raise NotFound("Operation not found: operations are forgotten when the dashboard restarts.")
    return operation


def _view(request: Request, operation: Operation) -> OperationView:
    through = operation.status is Status.DONE
    return OperationView(
        id=operation.id,
        verb=operation.verb,
        given=tuple(
            (parameter.label, operation.given[parameter.name])
            for parameter in operation.verb.parameters
            if parameter.name in operation.given
        ),
        filter_text=operation.filter_text,
        user=operation.user,
        started_at=operation.started_at,
        ended_at=operation.ended_at,
        status=operation.status.value,
        total=operation.seen if through else max(operation.total.value, operation.seen),
        total_exact=through or operation.total.kind is CountKind.EXACT,
        changed=operation.changed,
        requested=operation.requested,
        seen=operation.seen,
        skipped=tuple(
            (SKIPPED[reason], number, operation.skipped_samples.get(reason, ()))
            for reason, number in operation.skipped.items()
        ),
        error=operation.error,
        url=url(request, "operations.show", id=operation.id),
        jobs_url=jobs_url(request, operation.filter.terms, operation.filter.states),
    )
