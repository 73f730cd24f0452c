"""River Pro's durable periodic jobs, and the clients that fetch from a queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.queues import ProducerRow
from riverui.errors import BadRequest
from riverui.features.concurrency import verbs as concurrency
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.features.workflows.domain.workflows import PeriodicJobRow
from riverui.features.workflows.section.models import (
    PeriodicJob,
    PeriodicJobs,
    Producer,
    Producers,
)
from riverui.features.workflows.section.required import GROUP, LIMIT, need
from riverui.storage.interface import Executor
from riverui.storage.tables import table_names
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, Parameter, limit
from riverui.web.api.models import NeededText
from riverui.web.http.context import dashboard

_TABLE = "river_periodic_job"
"""River Pro's table of them."""
_PRODUCERS = "river_producer"
"""River Pro's table of clients that fetch from queues."""
_STALE = timedelta(hours=24)
"""Time since its last update up to which a periodic job is listed, as in River UI."""


async def periodic_jobs(request: Request) -> Response:
    """Return durable periodic jobs updated within the last day by id: River Pro's and riverui's
    own.
    """
    board, limit = dashboard(request), requests.limit(request, LIMIT)
    ours = await board.own_tables.there(DurablePeriodicStore)
    rows: list[PeriodicJobRow] = []
    async with board.driver.reading() as executor:
        if not ours or _TABLE in await table_names(executor):
            pro = await need(
                executor, {_TABLE}, "Durable periodic jobs need River Pro's migrations."
            )
            since = datetime.now(UTC) - _STALE
            rows.extend(await pro.periodic_job_list(updated_after=since, limit=limit))
        if ours:
            rows.extend(await _own(executor, limit))
    rows = sorted(rows, key=lambda row: row.id)[:limit]
    return serializers.reply(PeriodicJobs(data=[PeriodicJob.from_row(row) for row in rows]))


async def _own(executor: Executor, limit: int) -> Sequence[PeriodicJobRow]:
    """Return riverui's own durable periodic jobs whose next run is known."""
    found = await DurablePeriodicStore(executor).durable_periodic_list(limit=limit)
    since = datetime.now(UTC) - _STALE
    return [
        PeriodicJobRow(row.id, row.created_at, row.next_run_at, row.updated_at)
        for row in found
        if row.next_run_at is not None and row.updated_at >= since
    ]


async def producers(request: Request) -> Response:
    """Return the clients that fetch from a queue, and what each of them works: River Pro's, and
    riverui's own of limited queues.
    """
    queue = requests.first(request, "queue_name")
    if not queue:
        raise BadRequest("`queue_name` is missing.")
    async with dashboard(request).driver.reading() as executor:
        rows: list[ProducerRow] = []
        ours = not await concurrency.lacks(executor)
        if not ours or _PRODUCERS in await table_names(executor):
            pro = await need(executor, {_PRODUCERS}, "Producers need River Pro's migrations.")
            rows.extend(await pro.producer_list(queue))
        if ours:
            own = await _own_producers(executor, queue)
            # River Pro's ids begin at one as well, and pages identify rows by them.
            taken = {row.id for row in rows}
            rows.extend(row._replace(id=-row.id) if row.id in taken else row for row in own)
    return serializers.reply(Producers(data=[Producer.from_row(row) for row in rows]))


async def _own_producers(executor: Executor, queue: str) -> Sequence[ProducerRow]:
    """Return riverui's own clients that work a limited queue; empty if the queue does not exist."""
    row = await executor.queues.row_get(queue)
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
