"""River Pro's durable periodic jobs, and the clients that fetch from a queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from riverui.actions import concurrency
from riverui.domain.workflows import PeriodicJobRow, ProducerRow
from riverui.errors import BadRequest
from riverui.storage.interface import DURABLE_PERIODIC, WORKFLOWS, Executor
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, limit
from riverui.web.api.models import NeededText
from riverui.web.http.context import dashboard
from riverui.web.sections.workflows.models import (
    PeriodicJob,
    PeriodicJobs,
    Producer,
    Producers,
)
from riverui.web.sections.workflows.required import GROUP, LIMIT, need

_TABLE = "river_periodic_job"
"""River Pro's table of them."""
_PRODUCERS = "river_producer"
"""River Pro's table of clients that fetch from queues."""
_STALE = timedelta(hours=24)
"""How long after its last update a periodic job is listed, as in River UI."""


async def periodic_jobs(request: Request) -> Response:
    """Answer durable periodic jobs updated within the last day: River Pro's, or else our own."""
    board, limit = dashboard(request), requests.limit(request, LIMIT)
    async with board.driver.reading() as executor:
        if (
            await board.durable_periodic.there()
            and _TABLE not in await WORKFLOWS.on(executor).pro_tables()
        ):
            rows = await _own(executor, limit)
        else:
            pro = await need(
                executor, {_TABLE}, "Durable periodic jobs need River Pro's migrations."
            )
            since = datetime.now(UTC) - _STALE
            rows = await pro.periodic_job_list(updated_after=since, limit=limit)
    return serializers.reply(PeriodicJobs(data=[PeriodicJob.of(row) for row in rows]))


async def _own(executor: Executor, limit: int) -> Sequence[PeriodicJobRow]:
    """Return our own durable periodic jobs whose next run is known."""
    found = await DURABLE_PERIODIC.on(executor).durable_periodic_list(limit=limit)
    since = datetime.now(UTC) - _STALE
    return [
        PeriodicJobRow(row.id, row.created_at, row.next_run_at, row.updated_at)
        for row in found
        if row.next_run_at is not None and row.updated_at >= since
    ]


async def producers(request: Request) -> Response:
    """Answer the clients that fetch from a queue, and what each of them works: River Pro's, or else
    our own of limited queues.
    """
    queue = requests.first(request, "queue_name")
    if not queue:
        raise BadRequest("`queue_name` is missing.")
    async with dashboard(request).driver.reading() as executor:
        there = await WORKFLOWS.on(executor).pro_tables()
        if _PRODUCERS not in there and not await concurrency.lacks(executor):
            rows = await _own_producers(executor, queue)
        else:
            pro = await need(executor, {_PRODUCERS}, "Producers need River Pro's migrations.")
            rows = await pro.producer_list(queue)
    return serializers.reply(Producers(data=[Producer.of(row) for row in rows]))


async def _own_producers(executor: Executor, queue: str) -> Sequence[ProducerRow]:
    """Return riverui's own clients that work a limited queue; none of a queue that is not there."""
    row = await executor.queue_row_get(queue)
    if row is None:
        return ()
    return await concurrency.producers(executor, row, now=datetime.now(UTC))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/pro/periodic-jobs",
        "api.pro.periodic_jobs",
        "jobs.read",
        periodic_jobs,
        Description(
            group=GROUP,
            summary="Durable periodic jobs updated within the last day.",
            answer=PeriodicJobs,
            parameters=(limit(LIMIT),),
            fails=(501,),
        ),
    ),
    Endpoint(
        "GET",
        "/api/pro/producers",
        "api.pro.producers",
        "queues.read",
        producers,
        Description(
            group=GROUP,
            summary="The clients that fetch from a queue.",
            answer=Producers,
            parameters=(
                Parameter(name="queue_name", summary="The queue.", type=NeededText, required=True),
            ),
            fails=(501,),
        ),
    ),
)
"""Their part of the API."""
