"""Actions on all jobs that match a query, as several addresses of the API start and tell them."""

from __future__ import annotations

import secrets
from typing import Annotated, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.job_verbs import OPERATION_VERBS
from riverui.actions.verbs import Given, JobVerb
from riverui.domain.pace import Pace
from riverui.errors import BadRequest, QueryTimeout
from riverui.storage.interface.params import Count as Counted, CountKind, JobCutoff, JobFilter
from riverui.web.api import serializers
from riverui.web.api.job_models import Query
from riverui.web.api.models import Count, Id, Model, Time
from riverui.web.api.selection import searched, states
from riverui.web.auth.access import access
from riverui.web.http.context import dashboard
from riverui.web.live import operation_run
from riverui.web.live.operation_run import OperationStatus
from riverui.web.live.operation_store import NewOperation
from riverui.web.search import addresses, query


class Operation(Model, frozen=True, kw_only=True):
    """An action on all jobs that match a query."""

    id: str
    verb: Annotated[str, Meta(extra_json_schema={"enum": sorted(OPERATION_VERBS)})]
    parameters: Annotated[
        dict[str, str | int], Meta(description="What the verb takes besides the jobs.")
    ]
    pace: Annotated[
        dict[str, int], Meta(description="What was asked for of its pace; empty for full speed.")
    ]
    failing_again: Annotated[
        Count | None,
        Meta(description="Of the newest 100 outcomes, those that failed; null if not watched."),
    ]
    query: str
    cutoff_at: Annotated[Time, Meta(description="Jobs that came later are left alone.")]
    user: str
    stopped_by: Annotated[
        str | None, Meta(description="Who asked it to stop; null where nobody did.")
    ]
    status: Annotated[str, Meta(extra_json_schema={"enum": list(OperationStatus)})]
    started_at: Time
    ended_at: Time | None
    total: Count
    total_exact: bool
    changed: Count
    requested: Count
    skipped: dict[str, Count]
    skipped_samples: dict[str, list[Id]]
    error: str

    @classmethod
    def of(cls, found: operation_run.Operation) -> Self:
        """Return a running or remembered operation as it is now."""
        through = found.status is OperationStatus.DONE
        return cls(
            id=found.id,
            verb=found.verb.name,
            parameters=dict(found.given),
            pace=dict(found.pace.stored),
            failing_again=found.watch.failed if found.watch else None,
            query=found.filter_text,
            cutoff_at=serializers.instant(found.cutoff.at),
            user=found.user,
            stopped_by=found.stopped_by,
            status=found.status.value,
            started_at=serializers.instant(found.started_at),
            ended_at=serializers.optional_instant(found.ended_at),
            total=found.seen if through else max(found.total.value, found.seen),
            total_exact=through or found.total.kind is CountKind.EXACT,
            changed=found.changed,
            requested=found.requested,
            skipped={reason.value: number for reason, number in found.skipped.items()},
            skipped_samples={
                reason.value: list(ids) for reason, ids in found.skipped_samples.items()
            },
            error=found.error,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a retry that is a quarter through."""
        return cls(
            id="q3vJ0yYbXq2R",
            verb="retry",
            parameters={},
            pace={"per_minute": 600, "canary": 10, "stop_failing": 20},
            failing_again=3,
            query="state:discarded kind:mail_send",
            cutoff_at="2026-11-21T08:59:58Z",
            user="ci",
            stopped_by=None,
            status="running",
            started_at="2026-11-21T09:00:00Z",
            ended_at=None,
            total=48_000,
            total_exact=True,
            changed=12_000,
            requested=0,
            skipped={"unique_conflict": 1},
            skipped_samples={"unique_conflict": [9381022]},
            error="",
        )


class OperationAnswer(Model, frozen=True, kw_only=True):
    """One operation."""

    operation: Operation

    @classmethod
    def of(cls, found: operation_run.Operation) -> Self:
        """Return an operation as it is now."""
        return cls(operation=Operation.of(found))

    @classmethod
    def example(cls) -> Self:
        """Return the example of an operation."""
        return cls(operation=Operation.example())


async def start(
    request: Request, verb: JobVerb, asked: Query, *, given: Given, pace: Pace
) -> Response:
    """Begin to act on every job that matches now, and answer 202 with the operation.

    What comes into the query later is not touched. BadRequest where the query makes no sense, or
    the verb does nothing for jobs of its states.
    """
    return await begin(request, verb, _matching(verb, asked), given=given, pace=pace)


async def begin(
    request: Request, verb: JobVerb, matching: JobFilter, *, given: Given, pace: Pace
) -> Response:
    """Begin to act on every job that matches now, and answer 202 with the operation."""
    board = dashboard(request)
    async with board.driver.reading() as executor:
        cutoff = await executor.job_cutoff()
    total = await _count(request, matching, cutoff)
    store = await board.operation_store()
    operation = await store.begin(
        NewOperation(
            id=secrets.token_urlsafe(9),
            verb=verb,
            given=given,
            filter=matching,
            filter_text=query.format(matching),
            order=addresses.default_order(matching.states),
            cutoff=cutoff,
            total=total,
            user=access(request).user,
            pace=pace,
        )
    )
    board.counts.expire()
    return serializers.reply(OperationAnswer.of(operation), status=202)


def _matching(verb: JobVerb, asked: Query) -> JobFilter:
    """Return what the query finds, in the states for which the verb does something."""
    found = searched(asked.query, states(asked.state))
    fitting = verb.states(found.states)
    if not fitting:
        raise BadRequest(
            f"There is nothing to {verb.name} among {' and '.join(found.states)} jobs."
        )
    return JobFilter(states=query.normal_states(fitting), terms=found.terms)


async def _count(request: Request, matching: JobFilter, cutoff: JobCutoff) -> Counted:
    board = dashboard(request)
    try:
        async with board.driver.reading() as executor:
            return await executor.job_count(matching, cap=board.config.count_cap, cutoff=cutoff)
    except QueryTimeout:
        return Counted(value=0, kind=CountKind.AT_LEAST)
