"""Actions on all jobs that match a query: how far they are, and their stop."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from riverui.errors import NotFound
from riverui.web.api import requests, serializers
from riverui.web.api.operations import serialized
from riverui.web.auth.access import access, need
from riverui.web.http.context import dashboard
from riverui.web.live.operations import Operation


async def index(request: Request) -> Response:
    """The operations of this process, newest first."""
    found = dashboard(request).operations.list()
    return serializers.reply(serializers.listing([serialized(operation) for operation in found]))


async def show(request: Request) -> Response:
    """One operation."""
    return serializers.reply({"operation": serialized(_operation(request))})


async def stop(request: Request) -> Response:
    """Stops an operation after the chunk at hand."""
    await requests.payload(request)
    operation = _operation(request)
    need(request, operation.verb.right)
    dashboard(request).operations.stop(operation, user=access(request).user)
    return serializers.reply({"operation": serialized(operation)})


def _operation(request: Request) -> Operation:
    operation = dashboard(request).operations.get(request.path_params["id"])
    if operation is None:
        raise NotFound("Operation not found: operations are forgotten when the dashboard restarts.")
    return operation
