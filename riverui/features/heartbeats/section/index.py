"""The running clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.explain.facts import RESCUED_AFTER
from riverui.domain.health.lost import LOST_AFTER
from riverui.domain.jobs import JobState
from riverui.domain.text import client_host
from riverui.features.heartbeats.section import fleet
from riverui.features.heartbeats.store import ClientRow, SeenClient
from riverui.storage.interface.params import Field
from riverui.storage.tables import MISSING, REMEDY
from riverui.web.http.context import access, dashboard
from riverui.web.http.problems import error_page
from riverui.web.http.request_context import only, url
from riverui.web.search import query
from riverui.web.search.addresses import jobs_url
from riverui.web.view.page_parts import Problem
from riverui.web.view.render import respond

_KINDS = 20
"""Sets of kinds that are listed: as many as there are sorts of workers."""


class ClientCard(Struct, frozen=True, kw_only=True):
    """A client that sends heartbeats, or should."""

    row: ClientRow
    anchor: str
    """The element's id: of this life, as a client started again under its old id has two."""
    held: SeenClient
    """The jobs that it holds."""
    held_url: str
    """The address of their list."""
    may_rescue: bool


class SeenLine(Struct, frozen=True, kw_only=True):
    """A client known only from `attempted_by`."""

    held: SeenClient
    held_url: str
    """The address of the jobs that it holds."""
    quiet: bool
    """Whether it may be gone: it holds jobs, and has taken none for a while."""
    rescued_at: datetime | None
    """When River rescues the first of its jobs; None if it holds none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkersIndex:
    """The clients of the database."""

    template: ClassVar[str] = "workers/index.html"
    fragments: ClassVar[Mapping[str, str]] = {"workers-list": "workers/_list.html"}

    clients: tuple[ClientCard, ...]
    dead: tuple[ClientRow, ...]
    seen: tuple[SeenLine, ...]
    kinds: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    """Kinds, and the hosts of the clients that report to work these."""
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
    problem, status = None, 200
    if found.problem is not None:
        status, error = error_page(request, found.problem)
        problem = Problem(title=error.title, detail=error.detail)
    missing = "" if found.has_table else f"Clients send no heartbeats: {MISSING} are missing."
    page = WorkersIndex(
        clients=tuple(_card(request, row, found) for row in found.living),
        dead=tuple(found.dead),
        seen=tuple(_seen(request, client) for client in found.seen),
        kinds=tuple(_kinds(found.living)),
        capped=fleet.RUNNING_CAP if found.capped else 0,
        most=fleet.MOST_CLIENTS,
        missing=missing,
        remedy=REMEDY if missing else "",
        self_url=self_url,
        problem=problem,
    )
    return respond(request, page, status=status)


def _card(request: Request, row: ClientRow, found: fleet.Fleet) -> ClientCard:
    held = found.holding(row) or SeenClient(id=row.id)
    holds = held.running > 0 or found.capped
    return ClientCard(
        row=row,
        anchor=f"client-{row.registered_at:%Y%m%d%H%M%S%f}",
        held=held,
        held_url=_held_url(request, held),
        may_rescue=row.silent and holds and access(request).may("workers.rescue"),
    )


def _seen(request: Request, client: SeenClient) -> SeenLine:
    begun = [job.attempted_at for job in client.held if job.attempted_at]
    quiet = client.seen_at is None or datetime.now(UTC) - client.seen_at >= LOST_AFTER
    return SeenLine(
        held=client,
        held_url=_held_url(request, client),
        quiet=quiet and client.running > 0,
        rescued_at=min(begun) + RESCUED_AFTER if begun else None,
    )


def _kinds(living: Sequence[ClientRow]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the sets of kinds that clients report, each with their hosts."""
    hosts: dict[frozenset[str], set[str]] = {}
    for row in living:
        if row.kinds is not None:
            hosts.setdefault(row.kinds, set()).add(client_host(row.host or row.id))
    for kinds in sorted(hosts, key=len, reverse=True)[:_KINDS]:
        yield tuple(sorted(kinds)), tuple(sorted(hosts[kinds]))


def _held_url(request: Request, client: SeenClient) -> str:
    return jobs_url(request, (query.equal(Field.WORKER, client.id),), (JobState.RUNNING,))
