"""Queues: the list, one queue, pause, resume and limits."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import queues as actions
from riverui.actions.verbs import QueueVerb
from riverui.domain.json import read_object
from riverui.domain.queues import MAX_NOTE, QueueCountRow
from riverui.errors import BadRequest, ConfigError, NotFound, QueryTimeout
from riverui.features.concurrency.domain import METADATA_KEY, ConcurrencyConfig
from riverui.features.rate_limits import verbs as rates
from riverui.features.rate_limits.domain import RateOverride
from riverui.storage.interface import Executor
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, in_path, limit
from riverui.web.api.models import (
    Body,
    Concurrency,
    Count,
    Model,
    Partition,
    Refusal,
    Status,
    Time,
    without_nulls,
)
from riverui.web.http.context import access, dashboard

log = logging.getLogger("riverui.actions")

_Counted = TypeVar("_Counted")

_GROUP = "Queues"
_LIMIT = 100
"""Queues in an answer by default, as in River UI."""
_CAP = 1_000_000
"""Counts are exact up to this number; up to `count_cap` if that takes too long."""


class Queue(Model, frozen=True, kw_only=True):
    """A queue (RiverQueue)."""

    count_available: Count
    count_running: Count
    created_at: Time
    concurrency: Concurrency | None
    name: str
    paused_at: Time | None
    updated_at: Time

    @classmethod
    def from_row(cls, row: QueueCountRow) -> Self:
        """Return a queue with its counts, and its limits from its metadata."""
        found = row.queue
        assert found.created_at is not None
        assert found.updated_at is not None
        # Metadata that is too long to read counts as empty.
        metadata = read_object(found.metadata.text) if found.metadata.complete else {}
        return cls(
            count_available=row.available,
            count_running=row.running,
            created_at=serializers.instant(found.created_at),
            concurrency=Concurrency.read(metadata.get("concurrency")),
            name=found.name,
            paused_at=serializers.optional_instant(found.paused_at),
            updated_at=serializers.instant(found.updated_at),
        )

    @classmethod
    def example(cls) -> Self:
        """Return a queue without limits."""
        return cls(
            count_available=12,
            count_running=3,
            created_at="2026-11-01T07:00:00Z",
            concurrency=None,
            name="default",
            paused_at=None,
            updated_at="2026-11-21T08:55:00Z",
        )


class Queues(Model, frozen=True, kw_only=True):
    """Queues by name."""

    data: list[Queue]

    @classmethod
    def example(cls) -> Self:
        """Return a list of one."""
        return cls(data=[Queue.example()])


class RateNumbers(Model, frozen=True, kw_only=True):
    """A rate limit that overrides the one configured in the clients (riverui)."""

    limit: Annotated[float, Meta(description="Jobs, or tokens, in each span.")]
    per_seconds: Annotated[
        float | UnsetType, Meta(description="The span; the clients' by default.")
    ] = UNSET
    burst: Annotated[
        float | UnsetType, Meta(description="Tokens in a full bucket; `limit` by default.")
    ] = UNSET


class QueueUpdate(Body, frozen=True, kw_only=True):
    """Changes to a queue; omitted fields stay as they are."""

    concurrency: Concurrency | UnsetType | None = UNSET
    rate_limit: RateNumbers | UnsetType | None = UNSET

    refusals: ClassVar[Mapping[str, Refusal]] = {
        "concurrency": (
            "`concurrency` must be null or {global_limit, local_limit, partition: {by_args,"
            " by_kind}}."
        ),
        "rate_limit": "`rate_limit` must be null or {limit, per_seconds, burst}: numbers.",
    }

    @classmethod
    def tidied(cls, posted: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the posted fields without limits that are null."""
        return {name: without_nulls(value) for name, value in posted.items()}

    @classmethod
    def example(cls) -> Self:
        """Return limits for each customer."""
        partition = Partition(by_args=["customer_id"])
        return cls(concurrency=Concurrency(global_limit=10, local_limit=5, partition=partition))


class QueuePauseBody(Body, frozen=True, kw_only=True):
    """Why a queue is paused (riverui); the body may be left out."""

    note: Annotated[
        str, Meta(description="Shown at the queue, with the user.", max_length=MAX_NOTE)
    ] = ""

    refusals: ClassVar[Mapping[str, Refusal]] = {
        "note": f"`note` must be a text of at most {MAX_NOTE} characters."
    }

    @classmethod
    def example(cls) -> Self:
        """Return a note."""
        return cls(note="vendor down")


async def index(request: Request) -> Response:
    """Answer queues that clients have registered, by name."""
    most = requests.limit(request, _LIMIT)
    rows = await _counted(
        request, lambda executor, cap: executor.queues.count_list(cap=cap, limit=most)
    )
    return serializers.reply(Queues(data=[Queue.from_row(row) for row in rows]))


async def show(request: Request) -> Response:
    """Answer one queue."""
    return serializers.reply(Queue.from_row(await _queue(request)))


async def act(verb: QueueVerb, request: Request) -> Response:
    """Do a verb to a queue, `*` for every queue."""
    board, name, user = dashboard(request), request.path_params["name"], access(request).user
    posted = await requests.payload(request)
    note = requests.convert(posted, QueuePauseBody).note if verb.asks else ""
    reason, limit = actions.reason(user, note), board.config.action_timeout
    changed = await actions.apply(board.driver, verb, name, reason, time_limit=limit)
    log.info("queue %r %s by %r: %d changed", name, verb.done, user, len(changed))
    return serializers.reply(Status())


async def update(request: Request) -> Response:
    """Set a queue's limits (River Pro's), or remove them with null, and answer the queue."""
    board, name = dashboard(request), request.path_params["name"]
    asked = await requests.read(request, QueueUpdate)
    time_limit: timedelta = board.config.action_timeout
    # Check both before writing either.
    rate = UNSET if asked.rate_limit is UNSET else _rate(asked.rate_limit)
    limits = UNSET if asked.concurrency is UNSET else _limits(asked.concurrency)
    if rate is UNSET and limits is UNSET:
        await actions.touch(board.driver, name, time_limit=time_limit)
    if rate is None:
        await rates.remove_override(board.driver, name, time_limit=time_limit)
    elif rate is not UNSET:
        await rates.set_override(board.driver, name, rate, time_limit=time_limit)
    if rate is not UNSET:
        override = None if rate is None else rate.as_json()
        log.info("queue %r rate limited by %r: %s", name, access(request).user, override)
    if limits is not UNSET:
        await actions.set_metadata_key(
            board.driver, name, METADATA_KEY, limits, time_limit=time_limit
        )
        log.info("queue %r limited by %r: %s", name, access(request).user, limits)
    return serializers.reply(Queue.from_row(await _queue(request)))


async def _queue(request: Request) -> QueueCountRow:
    name = request.path_params["name"]
    row = await _counted(request, lambda executor, cap: executor.queues.count_get(name, cap=cap))
    if row is None:
        raise NotFound(f"Queue not found: {name[:200]}.")
    return row


async def _counted(
    request: Request, read: Callable[[Executor, int], Awaitable[_Counted]]
) -> _Counted:
    """Return what `read` counts up to a cap, a lower one if that takes too long."""
    board = dashboard(request)
    try:
        async with board.driver.reading() as executor:
            return await read(executor, _CAP)
    except QueryTimeout:
        async with board.driver.reading() as executor:
            return await read(executor, board.config.count_cap)


def _limits(limits: Concurrency | None) -> str | None:
    """Return the limits as JSON text, the args of the partition sorted; None to remove them.

    Raises BadRequest for limits that no client could be configured with: clients would ignore them.
    """
    if limits is None:
        return None
    try:
        return ConcurrencyConfig.read(msgspec.to_builtins(limits)).as_json()
    except ConfigError as error:
        raise BadRequest(f"`concurrency`: {error}") from None


def _rate(numbers: RateNumbers | None) -> RateOverride | None:
    """Return the rate limit to set, None to remove it. Raises BadRequest for invalid numbers."""
    if numbers is None:
        return None
    try:
        return RateOverride.read(msgspec.to_builtins(numbers))
    except ConfigError as error:
        raise BadRequest(f"`rate_limit`: {error}") from None


_NAME = in_path("name", "The queue's name.")
_NAME_OR_ALL = in_path("name", "The queue's name; `*` is every queue.")

ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/queues",
        "api.queues.index",
        "queues.read",
        index,
        Description(
            group=_GROUP,
            summary="Queues that clients have registered, by name.",
            answer=Queues,
            parameters=(limit(_LIMIT),),
        ),
    ),
    Endpoint(
        "GET",
        "/api/queues/{name:river_rest}",
        "api.queues.show",
        "queues.read",
        show,
        Description(
            group=_GROUP, summary="One queue.", answer=Queue, parameters=(_NAME,), fails=(404,)
        ),
    ),
    *(
        Endpoint(
            "PUT",
            f"/api/queues/{{name:river_rest}}/{verb.name}",
            f"api.queues.{verb.name}",
            verb.right,
            partial(act, verb),
            Description(
                group=_GROUP,
                summary=verb.summary,
                answer=Status,
                parameters=(_NAME_OR_ALL,),
                body=(QueuePauseBody,) if verb.asks else (),
                fails=(404, 413),
            ),
        )
        for verb in actions.QUEUE_VERBS.values()
    ),
    Endpoint(
        "PATCH",
        "/api/queues/{name:river_rest}",
        "api.queues.update",
        "queues.update",
        update,
        Description(
            group=_GROUP,
            summary="Sets a queue's limits (River Pro) or rate limit (riverui); null removes them."
            " Other metadata is kept.",
            answer=Queue,
            parameters=(_NAME,),
            body=(QueueUpdate,),
            fails=(404,),
        ),
    ),
)
"""The section's part of the API."""
