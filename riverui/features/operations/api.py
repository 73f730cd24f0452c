"""The API of operations, which act on all jobs that match a query."""

from __future__ import annotations

from typing import Annotated, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions.verbs import Given, JobVerb
from riverui.errors import BadRequest, NotFound, QueryTimeout
from riverui.features.operations import store
from riverui.features.operations.domain import Pace
from riverui.features.operations.runner import OPERATIONS
from riverui.features.operations.start import start
from riverui.features.operations.store import OperationStatus
from riverui.features.operations.verbs import OPERATION_VERBS
from riverui.storage.interface import SQL
from riverui.storage.interface.params import Count as JobCount, CountKind, JobFilter
from riverui.storage.stores.server import ServerStore
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, in_path, limit
from riverui.web.api.job_models import Query
from riverui.web.api.models import Count, Id, Model, NeededText, Time
from riverui.web.api.selection import searched, states
from riverui.web.http.context import Dashboard, access, dashboard, need
from riverui.web.search import query
from riverui.web.view.facts import fact

_GROUP = "Operations"
_LIMIT = 100
"""Operations per response by default."""
_ID = in_path("id", "The operation's id.", NeededText)


class Operation(Model, frozen=True, kw_only=True):
    """An action on all jobs that match a query."""

    id: str
    verb: Annotated[str, Meta(extra_json_schema={"enum": sorted(OPERATION_VERBS)})]
    parameters: Annotated[dict[str, str | int], Meta(description="The verb's parameters.")]
    pace: Annotated[
        dict[str, int], Meta(description="The limits of its pace; empty for full speed.")
    ]
    failing_again: Annotated[
        Count | None,
        Meta(description="Failures among the newest 100 outcomes; null if not watched."),
    ]
    query: str
    cutoff_at: Annotated[Time, Meta(description="Jobs that are newer are not changed.")]
    user: str
    stopped_by: Annotated[
        str | None, Meta(description="Who asked it to stop; null if it was not asked.")
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
    def from_operation(cls, found: store.Operation) -> Self:
        """Return the API's model of an operation."""
        return cls(
            id=found.id,
            verb=found.verb,
            parameters=dict(found.parameters),
            pace=dict(found.pace.stored),
            failing_again=found.watch.failed if found.watch else None,
            query=found.query,
            cutoff_at=serializers.instant(found.cutoff.at),
            user=found.user,
            stopped_by=found.stopped_by,
            status=found.status.value,
            started_at=serializers.instant(found.started_at),
            ended_at=serializers.optional_instant(found.ended_at),
            total=found.expected.value,
            total_exact=found.expected.kind is CountKind.EXACT,
            changed=found.changed,
            requested=found.requested,
            skipped={reason.value: number for reason, (number, _) in found.skipped.items()},
            skipped_samples={reason.value: list(ids) for reason, (_, ids) in found.skipped.items()},
            error=found.error,
        )

    @classmethod
    def example(cls) -> Self:
        """Return a retry that has done a quarter of its jobs."""
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
    def from_operation(cls, found: store.Operation) -> Self:
        """Return the API's model of an operation."""
        return cls(operation=Operation.from_operation(found))

    @classmethod
    def example(cls) -> Self:
        """Return the example of an operation."""
        return cls(operation=Operation.example())


class Operations(Model, frozen=True, kw_only=True):
    """Operations, newest first."""

    data: list[Operation]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one operation."""
        return cls(data=[Operation.example()])


async def index(request: Request) -> Response:
    """Return the operations, newest first."""
    found = (
        await dashboard(request)
        .get(OPERATIONS)
        .list(
            before=requests.first(request, "before") or None,
            limit=requests.limit(request, _LIMIT, least=1),
        )
    )
    return serializers.reply(Operations(data=[Operation.from_operation(each) for each in found]))


async def show(request: Request) -> Response:
    """Return one operation."""
    return serializers.reply(OperationAnswer.from_operation(await find(request)))


async def stop(request: Request) -> Response:
    """Stop an operation after the current chunk, and return it."""
    await requests.payload(request)
    operation = await find(request)
    need(request, OPERATION_VERBS[operation.verb].right)
    operations = dashboard(request).get(OPERATIONS)
    stopped = await operations.stop(operation, user=access(request).user)
    return serializers.reply(OperationAnswer.from_operation(stopped))


async def find(request: Request) -> store.Operation:
    """Return the operation in the URL; raise NotFound if it is unknown."""
    board = dashboard(request)
    if operation := await board.get(OPERATIONS).get(request.path_params["id"]):
        return operation
    shared = await board.get(OPERATIONS).shared()
    when = "30 days after their end" if shared else "when the dashboard restarts"
    message = f"Operation not found: operations are deleted {when}."
    if not shared and await other_dashboards(board):
        message += " Another dashboard of this database may know it: each knows only its own."
    raise NotFound(message)


async def other_dashboards(board: Dashboard) -> int:
    """Return how many other dashboards are connected to the database. Those embedded in another
    program have that program's connection name and are not counted.
    """
    if SQL not in board.driver.capabilities:
        return 0
    names = await fact(board.driver, lambda executor: ServerStore(executor).dashboard_list())
    return 0 if isinstance(names, Exception) else len(set(names) - {board.name})


async def start_query(
    request: Request, verb: JobVerb, asked: Query, *, given: Given, pace: Pace
) -> Response:
    """Start to act on every job that matches a query, in the states to which the verb applies, and
    return 202 with the operation. Raise BadRequest if the query is not valid.
    """
    found = searched(asked.query, states(asked.state))
    fitting = verb.states(found.states)
    if not fitting:
        raise BadRequest(
            f"There is nothing to {verb.name} among {' and '.join(found.states)} jobs."
        )
    matching = JobFilter(states=query.normal_states(fitting), terms=found.terms)
    return await start_matching(request, verb, matching, given=given, pace=pace)


async def start_matching(
    request: Request, verb: JobVerb, matching: JobFilter, *, given: Given, pace: Pace
) -> Response:
    """Start to act on every job that matches now, and return 202 with the operation."""
    board = dashboard(request)
    async with board.driver.reading() as executor:
        cutoff = await executor.jobs.cutoff()
    try:
        async with board.driver.reading() as executor:
            cap = board.config.count_cap
            total = await executor.jobs.count(matching, cap=cap, cutoff=cutoff)
    except QueryTimeout:
        total = JobCount(value=0, kind=CountKind.AT_LEAST)
    operation = await start(
        request, verb, matching, given=given, pace=pace, cutoff=cutoff, total=total
    )
    return serializers.reply(OperationAnswer.from_operation(operation), status=202)


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
"""The endpoints."""
