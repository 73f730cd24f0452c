"""Actions on all jobs that match a query, as several addresses of the API start and tell them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.verbs import JobVerb
from riverui.domain.jobs import JobState
from riverui.errors import BadRequest, QueryTimeout
from riverui.storage.interface.params import Count, CountKind, JobCutoff, JobFilter
from riverui.web.api import serializers
from riverui.web.api.selection import searched, states
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.live.operations import Operation, Status
from riverui.web.search import addresses, query


async def start(request: Request, verb: JobVerb, posted: Mapping[str, Any]) -> Response:
    """Begins to act on every job that matches now: what comes into the query later is not
    touched.
    """
    board = dashboard(request)
    matching, given = _matching(verb, posted), verb.read(posted)
    async with board.driver.reading() as executor:
        cutoff = await executor.job_cutoff()
    operation = board.operations.start(
        verb,
        matching,
        given=given,
        id=secrets.token_urlsafe(9),
        cutoff=cutoff,
        filter_text=query.format(matching),
        order=addresses.default_order(matching.states),
        total=await _count(request, matching, cutoff),
        user=access(request).user,
    )
    board.counts.expire()
    return serializers.reply({"operation": serialized(operation)}, status=202)


def _matching(verb: JobVerb, posted: Mapping[str, Any]) -> JobFilter:
    """What the query finds, in the states for which the verb does something."""
    known = ("state", *(parameter.name for parameter in verb.parameters))
    if unknown := sorted(posted.keys() - {"query", *known}):
        # Whatever else narrows what is meant must not be passed over.
        only = ", ".join(f"`{name}`" for name in known)
        raise BadRequest(f"With a `query`, only {only} may be given, not `{unknown[0][:40]}`.")
    text, named = posted["query"], posted.get("state") or []
    if not isinstance(text, str) or not isinstance(named, list):
        raise BadRequest("`query` must be a search text, and `state` a list of states.")
    found = searched(text, states(named))
    fitting = [state for state in found.states or JobState if state in verb.fits]
    if not fitting:
        raise BadRequest(
            f"There is nothing to {verb.name} among {' and '.join(found.states)} jobs."
        )
    return JobFilter(states=query.normal_states(fitting), terms=found.terms)


async def _count(request: Request, matching: JobFilter, cutoff: JobCutoff) -> Count:
    board = dashboard(request)
    try:
        async with board.driver.reading() as executor:
            return await executor.job_count(matching, cap=board.config.count_cap, cutoff=cutoff)
    except QueryTimeout:
        return Count(value=0, kind=CountKind.AT_LEAST)


def serialized(operation: Operation) -> dict[str, Any]:
    """Return an operation as the JSON that the API gives for it."""
    through = operation.status is Status.DONE
    return {
        "id": operation.id,
        "verb": operation.verb.name,
        "parameters": dict(operation.given),
        "query": operation.filter_text,
        "user": operation.user,
        "status": operation.status.value,
        "started_at": serializers.instant(operation.started_at),
        "ended_at": serializers.optional_instant(operation.ended_at),
        "total": operation.seen if through else max(operation.total.value, operation.seen),
        "total_exact": through or operation.total.kind is CountKind.EXACT,
        "changed": operation.changed,
        "requested": operation.requested,
        "skipped": {reason.value: number for reason, number in operation.skipped.items()},
        "skipped_samples": {
            reason.value: list(ids) for reason, ids in operation.skipped_samples.items()
        },
        "error": operation.error,
    }
