"""Sends signals to workflows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from msgspec import UNSET, Meta, Raw, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.json import write_json
from riverui.errors import NotSupported
from riverui.features.workflows.domain.workflows import SignalRow
from riverui.features.workflows.section.models import Signal
from riverui.features.workflows.section.required import WORKFLOW
from riverui.features.workflows.waits.store import SignalInsertParams, WaitStore
from riverui.features.workflows.waits.verbs import signals
from riverui.storage import tables
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint
from riverui.web.api.models import Body, NeededText, Refusal
from riverui.web.http.context import access, dashboard

log = logging.getLogger("riverui.actions")

RIGHT = "workflows.signal"
"""The right to send signals."""


class NewSignal(Body, frozen=True, kw_only=True):
    """A signal to send to a workflow."""

    key: Annotated[NeededText, Meta(description="What tasks wait for, up to 200 characters.")]
    payload: Annotated[Raw, Meta(description="Any JSON, up to 1 MB.")] | UnsetType = UNSET
    source: Annotated[
        dict[str, Any] | None,
        Meta(description="Where it comes from; the sender is stored in it as `user`."),
    ] = None
    attempt: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        Meta(description="Refused if the workflow is in another one."),
    ] = None
    idempotency_key: Annotated[
        NeededText | None, Meta(description="A signal sent again with the same key is stored once.")
    ] = None

    refusals: ClassVar[Mapping[str, Refusal]] = {
        "key": "`key` is missing, or no text.",
        "source": "`source` must be a JSON object.",
        "attempt": "`attempt` must be a whole number, 1 or more.",
        "idempotency_key": "`idempotency_key` must be text.",
    }

    @classmethod
    def example(cls) -> Self:
        """Return an approval."""
        return cls(key="approval", payload=Raw(b'{"ok": true}'), idempotency_key="webhook-7781")


async def create(request: Request) -> Response:
    """Send a signal; return it, or the one sent before with its idempotency key."""
    asked = await requests.read_exact(request, NewSignal)
    params = SignalInsertParams(
        workflow_id=request.path_params["id"],
        key=asked.key,
        payload="null" if asked.payload is UNSET else bytes(asked.payload).decode(),
        source=write_json({**(asked.source or {}), "user": access(request).user}),
        attempt=asked.attempt,
        idempotency_key=asked.idempotency_key,
    )
    return serializers.reply(Signal.from_row(await send(request, params)))


async def send(request: Request, params: SignalInsertParams) -> SignalRow:
    """Send and log a signal; see actions.signals.send for the errors."""
    board = dashboard(request)
    async with board.driver.transaction(timeout=board.config.action_timeout) as tx:
        if not await WaitStore.installed(tx):
            raise NotSupported(tables.message("Signals of workflows need"))
        row = await signals.send(tx, params)
    user = access(request).user
    log.info("signal %r (%d) to workflow %r by %r", row.key, row.id, params.workflow_id, user)
    return row


ENDPOINT = Endpoint(
    "POST",
    "/api/workflows/{id:river_rest}/signals",
    "api.workflows.signal",
    RIGHT,
    create,
    Description(
        group="Workflows",
        summary="Sends a signal to one of riverui's own workflows, for the tasks that wait for its"
        " key.",
        answer=Signal,
        body=(NewSignal,),
        parameters=(WORKFLOW,),
        fails=(404, 409, 413, 501),
        extension=True,
    ),
)
"""Its part of the API."""
