"""The running clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.features.heartbeats.section import fleet
from riverui.features.heartbeats.store import ClientRow, HeldJob, SeenClient
from riverui.storage.interface import SQL
from riverui.storage.interface.params import Field
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http.context import access, dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import respond

_LAGGING = 1.0
"""Seconds of an event loop's lag from which it is pointed out: jobs on that loop are delayed as
long.
"""


class QueueSlots(Struct, frozen=True, kw_only=True):
    """One queue as worked by a client."""

    name: str
    url: str
    most: int
    taken: int


class HeldJobs(Struct, frozen=True, kw_only=True):
    """The running jobs of a client."""

    jobs: tuple[tuple[HeldJob, str], ...]
    """The longest running jobs, each with its address."""
    running: int
    """All of them, among the jobs that were read."""
    url: str
    """The address of their list."""


class ClientCard(Struct, frozen=True, kw_only=True):
    """A client that sends heartbeats, or should."""

    row: ClientRow
    anchor: str
    """The element's id: of this life, as a client started again under its old id has two."""
    queues: tuple[QueueSlots, ...]
    held: HeldJobs
    lag: str
    """How long its event loop takes to answer; empty if unknown."""
    lagging: bool
    every: str
    """The time between two heartbeats."""
    may_rescue: bool


class SeenLine(Struct, frozen=True, kw_only=True):
    """A client known only from `attempted_by`."""

    client: SeenClient
    held: HeldJobs
    queues: tuple[tuple[str, str], ...]
    """Names and addresses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkersIndex:
    """The clients of the database."""

    template: ClassVar[str] = "workers/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"workers-list": "workers/_list.html"}

    clients: tuple[ClientCard, ...]
    dead: tuple[ClientRow, ...]
    seen: tuple[SeenLine, ...]
    capped: int
    """Running jobs that were read, if there are more; else 0."""
    most: int
    """The maximum number of clients shown."""
    missing: str
    """Why no client sends heartbeats, as a sentence; empty if they can."""
    remedy: str
    """The command that makes them available; empty if none does."""
    self_url: str
    problem: Problem | None


async def index(request: Request) -> Response:
    """Return the page of the known clients."""
    only(request)
    board, self_url = dashboard(request), url(request, "workers.index")
    found = await fleet.read(board.driver)
    if found is None:
        page = WorkersIndex(
            clients=(),
            dead=(),
            seen=(),
            capped=0,
            most=fleet.MOST_CLIENTS,
            missing=SQL.missing,
            remedy="",
            self_url=self_url,
            problem=None,
        )
        return respond(request, page)
    problem, status = None, 200
    if found.problem is not None:
        status, error = error_page(request, found.problem)
        problem = Problem(title=error.title, detail=error.detail)
    missing = ""
    if not found.has_table:
        missing = f"Clients send no heartbeats: {MISSING} are missing."
    page = WorkersIndex(
        clients=tuple(_card(request, row, found) for row in found.living),
        dead=tuple(found.dead),
        seen=tuple(
            SeenLine(
                client=client,
                held=_held(request, client.id, client),
                queues=tuple((name, _queue_url(request, name)) for name in client.queues),
            )
            for client in found.seen
        ),
        capped=fleet.RUNNING_CAP if found.capped else 0,
        most=fleet.MOST_CLIENTS,
        missing=missing,
        remedy="" if found.has_table else REMEDY,
        self_url=self_url,
        problem=problem,
    )
    return respond(request, page, status=status)


def _card(request: Request, row: ClientRow, found: fleet.Fleet) -> ClientCard:
    lag, held = row.loop_lag, _held(request, row.id, found.holding(row))
    holds = held.running > 0 or found.capped
    return ClientCard(
        row=row,
        anchor=f"client-{row.registered_at:%Y%m%d%H%M%S%f}",
        queues=tuple(
            QueueSlots(name=name, url=_queue_url(request, name), most=most, taken=taken)
            for name, (most, taken) in sorted(row.queues.items())
        ),
        held=held,
        lag="" if lag is None else f"{lag:.1f} s" if lag >= _LAGGING else f"{lag * 1000:.0f} ms",
        lagging=lag is not None and lag >= _LAGGING,
        every=f"{row.heartbeat_interval.total_seconds():g} s",
        may_rescue=row.silent and holds and access(request).may("workers.rescue"),
    )


def _held(request: Request, client_id: str, client: SeenClient | None) -> HeldJobs:
    term = query.equal(Field.WORKER, client_id)
    return HeldJobs(
        jobs=tuple(
            (job, url(request, "jobs.show", id=job.id)) for job in (client.held if client else ())
        ),
        running=client.running if client else 0,
        url=jobs_url(request, (term,), (JobState.RUNNING,)),
    )


def _queue_url(request: Request, name: str) -> str:
    return url(request, "queues.show", name=name)
