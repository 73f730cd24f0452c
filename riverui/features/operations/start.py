"""Starts an operation for the user of a request."""

from __future__ import annotations

import secrets

from starlette.requests import Request

from riverui.actions.verbs import Given, JobVerb
from riverui.features.operations.domain import Pace, Watch
from riverui.features.operations.runner import OPERATIONS
from riverui.features.operations.store import Operation
from riverui.storage.interface.params import Count, JobCutoff, JobFilter, JobOrder
from riverui.web.http.context import access, dashboard
from riverui.web.search import addresses, query


async def start(
    request: Request,
    verb: JobVerb,
    matching: JobFilter,
    *,
    given: Given,
    pace: Pace,
    cutoff: JobCutoff,
    total: Count,
    id: str = "",
) -> Operation:
    """Start to apply a verb to all jobs, or dead letters, that match up to the cutoff; see
    Operations.start.
    """
    board = dashboard(request)
    by_time = JobOrder.TIME_DESC if verb.on_dead_letters else None
    operation = await board.get(OPERATIONS).start(
        Operation(
            id=id or new_id(),
            verb=verb.name,
            parameters=given,
            query=query.format(matching),
            order=by_time or addresses.default_order(matching.states),
            cutoff=cutoff,
            total=total,
            user=access(request).user,
            allowed=verb.right,
            pace=pace,
            watch=Watch() if pace.most_failing is not None else None,
        )
    )
    board.counts.expire()
    return operation


def new_id() -> str:
    """Return the id of a new operation."""
    return secrets.token_urlsafe(9)
