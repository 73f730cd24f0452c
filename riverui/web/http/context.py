"""The parts of a dashboard app: its sections, their services, the state its requests share, and
what the current user may do.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from itsdangerous import URLSafeTimedSerializer
from starlette.requests import HTTPConnection
from starlette.routing import Route

from riverui.actions.new_jobs import JobInserter
from riverui.actions.pilot import JobPilot
from riverui.domain.jobs import JobShowRow
from riverui.domain.marks import Mark
from riverui.errors import Forbidden, ReadOnlyDatabase
from riverui.features.figures.reader.figure_reader import FigureReader
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.http.counts import Counts
from riverui.web.http.metrics import Metrics
from riverui.web.http.own_table import OwnTableWatch
from riverui.web.http.read_replica import ReadReplica
from riverui.web.http.request_context import NOBODY, Viewer, reading, request_context
from riverui.web.limits import DashboardLimits
from riverui.web.view.contributions import (
    AttemptsLink,
    EventReader,
    JobCard,
    JobGroup,
    JobKeeping,
    KindCard,
    PaletteSource,
)
from riverui.web.view.navigation import NavEntry, Shortcut

T = TypeVar("T")

SIGNED_IN = "signed in"
"""Marks a route that is open to every signed-in person."""
PUBLIC = "public"
"""Marks a route that is open without sign-in."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class Service(Generic[T]):
    """State that a part of the dashboard keeps between requests, such as a cache or a background
    task. Each app has its own instance, which `dashboard(request).get(SERVICE)` returns.
    """

    make: Callable[[Dashboard], T]
    """Creates it on first use; a section's services when the app is made."""
    start: Callable[[T], object] | None = None
    """Called when the server starts, if it runs the app's lifespan."""
    close: Callable[[T], Awaitable[None] | None] | None = None
    """Stops its background tasks. It may be used again afterwards."""


class MarkReader(Protocol):
    """Reads the moments that charts mark."""

    async def read(self, since: datetime, until: datetime) -> Sequence[Mark]:
        """Return the newest marks from `since` (inclusive) to `until` (exclusive), the
        oldest first.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One section: the `__init__.py` of its folder holds its record, the files beside it its pages
    and handlers.
    """

    name: str
    """The name of its folder in templates, and what the names of its routes begin with."""
    navigation: NavEntry | None = None
    """Its navigation entry; None for a section without pages of its own."""
    routes: tuple[Route, ...] = ()
    """Its pages, each a `GuardedRoute`. If several match an address, the first of them answers."""
    api: tuple[Route, ...] = ()
    """Its routes for programs, all under /api (or /metrics), each an `Endpoint`."""
    rights: Mapping[str, str] = field(default_factory=dict)
    """Its rights, and what each permits, in words that follow “You may”. Those that end with
    `.read` are all that a read-only dashboard grants.
    """
    shortcuts: tuple[Shortcut, ...] = ()
    """Keys of its pages for the help page, besides those of its navigation entry."""
    template_globals: Mapping[str, Any] = field(default_factory=dict)
    """Names that its templates may use besides those of riverui.web.view.render."""
    services: tuple[Service[Any], ...] = ()
    """Its state: made with the app, started and closed with its lifespan."""
    marks: Service[Any] | None = None
    """Its `MarkReader`: moments that charts mark, such as deploys."""
    front_card: str = ""
    """The template of what it adds to the front page; empty for nothing."""
    events: EventReader | None = None
    """Reads what it adds to the timeline."""
    job_cards: tuple[JobCard, ...] = ()
    """Cards that it adds to the page of a job."""
    kind_cards: tuple[KindCard, ...] = ()
    """Cards that it adds to the page of a kind."""
    palette: PaletteSource | None = None
    """What it offers in the palette, besides its navigation entry."""
    attempts_link: Callable[[HTTPConnection, JobShowRow], AttemptsLink | None] | None = None
    """Returns the link that it adds to the attempts of a job; None for none."""
    job_keeping: JobKeeping | None = None
    """Keeps jobs that are deleted."""
    job_group: Callable[[HTTPConnection, str], Awaitable[JobGroup]] | None = None
    """Finds the jobs that the parameter `group` of a bulk action names; raises NotFound."""


class Sections:
    """All sections of the dashboard, in the order of the navigation."""

    def __init__(self, *sections: Section) -> None:
        self._sections = sections
        self.navigation = {item.name: item.navigation for item in sections if item.navigation}
        """Entries of the navigation, by section."""
        self.rights: Mapping[str, str] = dict(
            sorted(right for section in sections for right in section.rights.items())
        )
        """Every right, and what it permits, in words that follow “You may”."""
        self.template_globals = {
            name: value for section in sections for name, value in section.template_globals.items()
        }
        self.front_cards = tuple(section.front_card for section in sections if section.front_card)
        self.services = tuple(service for section in sections for service in section.services)
        self.marks = next((section.marks for section in sections if section.marks), None)
        self.events = tuple(section.events for section in sections if section.events)
        self.job_cards = tuple(card for section in sections for card in section.job_cards)
        self.kind_cards = tuple(card for section in sections for card in section.kind_cards)
        self.palettes = tuple(section.palette for section in sections if section.palette)
        self.attempts_links = tuple(
            section.attempts_link for section in sections if section.attempts_link
        )
        self.job_keeping = next((item.job_keeping for item in sections if item.job_keeping), None)
        self.job_group = next((item.job_group for item in sections if item.job_group), None)

    def __iter__(self) -> Iterator[Section]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)

    def shortcuts(self) -> Sequence[Shortcut]:
        """Return the lines of the help page: each section's own, then the keys that open it."""
        found: list[Shortcut] = []
        for section in self._sections:
            found += section.shortcuts
            if section.navigation and section.navigation.keys:
                entry = section.navigation
                found.append(Shortcut(keys=tuple(entry.keys.split()), does=entry.label.lower()))
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class AppOptions:
    """How the app of a dashboard is served."""

    clock: Callable[[], float] = time.monotonic
    """Returns seconds, for the age of counts, figures and live regions."""
    close_driver: bool = False
    """Whether the end of the app's lifespan closes the driver."""
    close_standby: bool = False
    """The same for the standby."""
    first_request: Callable[[], None] | None = None
    """Called at the first request."""
    hosts: frozenset[str] | None = None
    """The only host names that are served; None for all."""
    inserter: JobInserter | None = None
    """Inserts jobs; None if this dashboard cannot."""
    limits: DashboardLimits | None = None
    name: str = ""
    """The name of this process, by which other dashboards of the database know it."""
    sections: Sections | None = None
    """What it consists of; None for all of riverui's sections."""
    standalone: bool = False
    """Whether `riverui serve` runs it."""
    standby: Driver | None = None
    """A standby of the database, from which pages are read."""
    workers: int = 1
    """Processes that answer on the same port, this one included."""


@dataclass(kw_only=True, slots=True)
class Dashboard:
    """One dashboard: its database, its settings, and the services of its sections."""

    clock: Callable[[], float]
    """Returns seconds, for the age of cached values."""
    config: DashboardConfig
    counts: Counts
    deeds: deque[tuple[datetime, str, str]] = field(default_factory=partial(deque, maxlen=100))
    """What people did on this dashboard lately: when, who, and in words. It is stored soon."""
    driver: Driver
    """What handlers use: reads from the standby, if there is one, and measures transactions."""
    figures: FigureReader
    inserter: JobInserter | None
    """Inserts jobs; None if this dashboard cannot."""
    limits: DashboardLimits
    metrics: Metrics
    name: str
    """The name of this process, by which other dashboards of the database know it."""
    own_tables: OwnTableWatch
    """Whether the tables of riverui exist, and which stores the database has."""
    pilot: JobPilot
    """Carries out the verbs on jobs; a client's features take part."""
    primary: Driver
    """The database itself, for what must not come from a standby."""
    reads: Driver
    """The same database or standby as `driver`, unmeasured: for reads in the background."""
    replica: ReadReplica | None
    """Chooses between the database and its standby, if there is one."""
    sections: Sections
    services: dict[Service[Any], Any] = field(default_factory=dict)
    """The services that were made so far."""
    signer: URLSafeTimedSerializer
    """Signs cookies and forms."""
    workers: int
    """Processes that answer on the same port, this one included."""

    def get(self, service: Service[T]) -> T:
        """Return this dashboard's own instance of a service."""
        found = self.services.get(service)
        if found is None:
            found = self.services[service] = service.make(self)
        made: T = found
        return made

    @property
    def marks(self) -> MarkReader | None:
        """What reads the moments that charts mark; None if no section does."""
        if self.sections.marks is None:
            return None
        reader: MarkReader = self.get(self.sections.marks)
        return reader

    async def marks_since(self, since: datetime) -> Sequence[Mark]:
        """Return the moments that charts mark from this time until now, the oldest first."""
        return [] if self.marks is None else await self.marks.read(since, datetime.now(UTC))

    def shows(self, entry: NavEntry) -> bool:
        """Return whether an entry of the navigation has something to show."""
        return entry.store is None or self.own_tables.known(entry.store)

    def start(self) -> None:
        """Start the services that run in the background."""
        # The navigation needs the answer before anyone opens a page.
        self.own_tables.watch(retry_seconds=self.limits.tables_seconds)
        for service in self.services:
            if service.start is not None:
                service.start(self.services[service])

    async def close(self) -> None:
        """Stop everything that runs in the background. It starts again on next use."""
        if self.replica is not None:
            await self.replica.close()
        for service, made in reversed(tuple(self.services.items())):
            closing = service.close and service.close(made)
            if closing is not None:
                await closing
        await self.own_tables.close()
        await self.counts.close()
        await self.figures.close()


def dashboard(request: HTTPConnection) -> Dashboard:
    """Return the dashboard that serves this request (a host may mount several)."""
    found: Dashboard = request.app.state.dashboard
    return found


def access(request: HTTPConnection) -> Viewer:
    """Return who sent the request; NOBODY on public routes and before sign-in. On a read-only
    database, the rights to change something are removed.
    """
    found = request_context(request).access or NOBODY
    if dashboard(request).driver.read_only:
        return replace(found, rights=reading(found.rights))
    return found


def need(request: HTTPConnection, right: str) -> None:
    """Raise Forbidden unless the user holds the right (or the route needs none), ReadOnlyDatabase
    if the database accepts no changes.
    """
    if right in (SIGNED_IN, PUBLIC) or access(request).may(right):
        return
    board = dashboard(request)
    if (request_context(request).access or NOBODY).may(right):
        raise ReadOnlyDatabase(board.driver.read_only)
    raise Forbidden(f"You may not {board.sections.rights[right]}.")
