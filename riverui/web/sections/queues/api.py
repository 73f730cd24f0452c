"""Queues: the list, one queue, pause, resume and limits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import queues as actions
from riverui.actions.verbs import QueueVerb
from riverui.domain.queues import QueueCountRow
from riverui.errors import BadRequest, NotFound, QueryTimeout
from riverui.web.api import requests, serializers
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.http.routes import GuardedRoute

log = logging.getLogger("riverui.actions")

_LIMIT = 100
_CAP = 1_000_000
"""Counts are exact up to here, where the time suffices; else up to what the pages count to."""


async def index(request: Request) -> Response:
    """Queues that clients have registered, by name."""
    board, limit = dashboard(request), requests.limit(request, _LIMIT)
    rows: Sequence[QueueCountRow] = ()
    for cap in (_CAP, board.config.count_cap):
        try:
            async with board.driver.reading() as executor:
                rows = await executor.queue_count_list(cap=cap, limit=limit)
            break
        except QueryTimeout:
            if cap == board.config.count_cap:
                raise
    return serializers.reply(serializers.listing([serializers.queue(row) for row in rows]))


async def show(request: Request) -> Response:
    """One queue."""
    return serializers.reply(serializers.queue(await _queue(request)))


async def act(verb: QueueVerb, request: Request) -> Response:
    """Does a verb to a queue, `*` for every queue."""
    board, name = dashboard(request), request.path_params["name"]
    await requests.payload(request)
    changed = await actions.apply(board.driver, verb, name, time_limit=board.config.action_timeout)
    log.info("queue %r %s by %r: %d changed", name, verb.done, access(request).user, len(changed))
    return serializers.reply({"status": "ok"})


VERB_ROUTES = tuple(
    GuardedRoute(
        "PUT",
        f"/api/queues/{{name:river_rest}}/{verb.name}",
        f"api.queues.{verb.name}",
        verb.right,
        partial(act, verb),
    )
    for verb in actions.QUEUE_VERBS.values()
)
"""An address for each verb."""


async def update(request: Request) -> Response:
    """Sets a queue's limits (River Pro's), or lifts them with null."""
    board, name, posted = (
        dashboard(request),
        request.path_params["name"],
        await requests.payload(request),
    )
    time_limit: timedelta = board.config.action_timeout
    if "concurrency" in posted:
        limits = _limits(posted)
        await actions.set_concurrency(board.driver, name, limits, time_limit=time_limit)
        log.info("queue %r limited by %r: %s", name, access(request).user, limits)
    else:
        await actions.touch(board.driver, name, time_limit=time_limit)
    return serializers.reply(serializers.queue(await _queue(request)))


async def _queue(request: Request) -> QueueCountRow:
    board, name = dashboard(request), request.path_params["name"]
    row = None
    for cap in (_CAP, board.config.count_cap):
        try:
            async with board.driver.reading() as executor:
                row = await executor.queue_count_get(name, cap=cap)
            break
        except QueryTimeout:
            if cap == board.config.count_cap:
                raise
    if row is None:
        raise NotFound(f"Queue not found: {name[:200]}.")
    return row


def _limits(posted: Mapping[str, Any]) -> str | None:
    """The limits as JSON text, the arguments to divide by in order."""
    if posted["concurrency"] is None:
        return None
    found = serializers.concurrency(posted["concurrency"])
    if found is None:
        raise BadRequest(
            "`concurrency` must be null or {global_limit, local_limit, partition: {by_args,"
            " by_kind}}."
        )
    if by_args := found["partition"]["by_args"]:
        if any("\0" in name for name in by_args):
            raise BadRequest("`by_args` holds a NUL character, which Postgres cannot store.")
        found["partition"]["by_args"] = sorted(by_args)
    return serializers.dump(found)
