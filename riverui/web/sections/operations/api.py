"""Actions on all jobs that match a query: how far they are, and their stop."""

from __future__ import annotations

from typing import Self

from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import NotFound
from riverui.web.api import operations, requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, in_path
from riverui.web.api.models import Model, NeededText
from riverui.web.api.operations import OperationAnswer
from riverui.web.auth.access import access, need
from riverui.web.http.context import dashboard
from riverui.web.live.operations import Operation

_GROUP = "Operations"
_ID = in_path("id", "The operation's id.", NeededText)


class Operations(Model, frozen=True, kw_only=True):
    """Operations, newest first."""

    data: list[operations.Operation]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one."""
        return cls(data=[operations.Operation.example()])


async def index(request: Request) -> Response:
    """Answer the operations of this process, newest first."""
    found = dashboard(request).operations.list()
    return serializers.reply(Operations(data=[operations.Operation.of(each) for each in found]))


async def show(request: Request) -> Response:
    """Answer one operation."""
    return serializers.reply(OperationAnswer.of(_operation(request)))


async def stop(request: Request) -> Response:
    """Stop an operation after the batch at hand, and answer it."""
    await requests.payload(request)
    operation = _operation(request)
    need(request, operation.verb.right)
    dashboard(request).operations.stop(operation, user=access(request).user)
    return serializers.reply(OperationAnswer.of(operation))


def _operation(request: Request) -> Operation:
    operation = dashboard(request).operations.get(request.path_params["id"])
    if operation is None:
        raise NotFound("Operation not found: operations are forgotten when the dashboard restarts.")
    return operation


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/operations",
        "api.operations.index",
        "jobs.read",
        index,
        Description(
            group=_GROUP,
            summary="Actions on all matching jobs since this process started, newest first.",
            answer=Operations,
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
