"""Actions on all jobs that match a query: how far they are, and their stop."""

from __future__ import annotations

from typing import Self

from starlette.requests import Request
from starlette.responses import Response

from riverui.web.api import operations, requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path, limit
from riverui.web.api.models import Model, NeededText
from riverui.web.api.operations import OperationAnswer
from riverui.web.auth.access import access, need
from riverui.web.http.context import dashboard
from riverui.web.sections.operations.index import find

_GROUP = "Operations"
_LIMIT = 100
"""Operations of an answer unless asked otherwise."""
_ID = in_path("id", "The operation's id.", NeededText)


class Operations(Model, frozen=True, kw_only=True):
    """Operations, newest first."""

    data: list[operations.Operation]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one."""
        return cls(data=[operations.Operation.example()])


async def index(request: Request) -> Response:
    """Answer the operations, newest first."""
    store = await dashboard(request).operation_store()
    found = await store.page(
        before=requests.first(request, "before") or None,
        limit=requests.limit(request, _LIMIT, least=1),
    )
    data = [operations.Operation.of(each) for each in found.operations]
    return serializers.reply(Operations(data=data))


async def show(request: Request) -> Response:
    """Answer one operation."""
    _, operation = await find(request)
    return serializers.reply(OperationAnswer.of(operation))


async def stop(request: Request) -> Response:
    """Stop an operation after the batch at hand, and answer it."""
    await requests.payload(request)
    store, operation = await find(request)
    need(request, operation.verb.right)
    stopped = await store.halt(operation, user=access(request).user)
    return serializers.reply(OperationAnswer.of(stopped))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/operations",
        "api.operations.index",
        "jobs.read",
        index,
        Description(
            group=_GROUP,
            summary="Actions on all matching jobs, newest first: those of 30 days, or since this"
            " process started where the database has no table for them.",
            answer=Operations,
            parameters=(
                Parameter(
                    name="before",
                    summary="Only those started before the operation of this id.",
                    type=NeededText,
                ),
                limit(_LIMIT),
            ),
            extension=True,
        ),
    ),
    Endpoint(
        "GET",
        "/api/operations/{id}",
        "api.operations.show",
        "jobs.read",
        show,
        Description(
            group=_GROUP,
            summary="One action on all matching jobs, with its progress.",
            answer=OperationAnswer,
            parameters=(_ID,),
            fails=(404,),
            extension=True,
        ),
    ),
    Endpoint(
        "POST",
        "/api/operations/{id}/stop",
        "api.operations.stop",
        "jobs.read",
        stop,
        Description(
            group=_GROUP,
            summary="Stops it after the current batch; also needs the right to its action.",
            answer=OperationAnswer,
            parameters=(_ID,),
            fails=(404, 413),
            extension=True,
        ),
    ),
)
"""The section's part of the API."""
