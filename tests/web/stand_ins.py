"""A driver without a database, and a browser without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx2
from httpx2 import AsyncClient
from starlette.applications import Starlette
from starlette.types import ASGIApp

from riverui import create_app
from riverui.domain.marks import Mark
from riverui.errors import DatabaseUnavailable, QueryTimeout
from riverui.storage.interface import (
    CAPABILITIES,
    MIGRATIONS,
    Capability,
    Driver,
    Executor,
    Transaction,
)
from riverui.web.auth.rights import Access
from riverui.web.config import DashboardConfig
from riverui.web.http.context import Dashboard, Section, Sections, Service


class DeadDriver:
    """Answers everything with one error; `ping` works unless `dead`."""

    capabilities: Collection[Capability[Any]] = frozenset(CAPABILITIES) - {MIGRATIONS}
    library = ("none", "1")
    product = "PostgreSQL"
    schema = None
    database = ""
    read_only = ""
    schema_in_use = ""

    def __init__(self, error: Exception | None = None, *, dead: bool = True) -> None:
        self.error = error or DatabaseUnavailable()
        self.dead = dead
        self.closed = 0
        self.pings = 0

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        return self._refuse()

    def transaction(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Transaction]:
        return self._refuse()

    def autocommit(
        self, *, timeout: timedelta | None = None
    ) -> AbstractAsyncContextManager[Executor]:
        return self._refuse()

    def apart(self) -> Driver:
        return self

    def session(self, *, timeout: timedelta) -> AbstractAsyncContextManager[Executor]:
        return self._refuse()

    async def adopt(self, transaction: object) -> Transaction:
        raise self.error

    @asynccontextmanager
    async def _refuse(self) -> AsyncIterator[Transaction]:
        raise self.error
        yield

    async def ping(self) -> None:
        self.pings += 1
        if self.dead:
            raise self.error

    async def close(self) -> None:
        self.closed += 1


class SlowDriver:
    """A driver whose statements of these names are stopped by their time limit, or by `error`."""

    def __init__(self, driver: Driver, *slow: str, error: type[Exception] = QueryTimeout) -> None:
        self._driver = driver
        self._error = error
        self.slow = slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    @asynccontextmanager
    async def reading(self, **given: Any) -> AsyncIterator[Any]:
        async with self._driver.reading(**given) as lent:
            for way in ("rows", "prepared", "planned"):
                setattr(lent, way, partial(self._run, getattr(lent, way)))
            yield lent

    async def _run(self, run: Callable[..., Any], block: str, *values: Any, **slots: Any) -> Any:
        if block in self.slow:
            raise self._error
        return await run(block, *values, **slots)


def browser(
    app: ASGIApp,
    *,
    base_url: str = "http://river.test",
    root_path: str = "",
    client: str = "127.0.0.1",
) -> AsyncClient:
    """Return a client that speaks to the app directly and follows no redirects; `client` is its
    address.
    """
    transport = httpx2.ASGITransport(app, root_path=root_path, client=(client, 1234))
    return _Browser(app, transport=transport, base_url=base_url)


@asynccontextmanager
async def dashboard(
    database: Any,
    *,
    access: Access | None = None,
    base_url: str = "http://river.test",
    root_path: str = "",
    **config: Any,
) -> AsyncIterator[AsyncClient]:
    """Yield a browser of a dashboard with these settings, whose users have this access; without
    one, they may do everything. Close the dashboard.
    """
    who: dict[str, Any] = {"authenticate": lambda _: access} if access else {"no_auth": True}
    app = create_app(database, config=DashboardConfig(**config), **who)
    async with browser(app, base_url=base_url, root_path=root_path) as client:
        yield client
    await app.state.dashboard.close()


class _Browser(AsyncClient):
    """Leaves nothing running that its visits have begun: nobody may close the app afterwards."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        super().__init__(**options)
        self._app = app

    async def __aexit__(self, *error: Any) -> None:
        await super().__aexit__(*error)
        for found in dashboards_in(self._app):
            await found.close()


class MadeMarks:
    """Marks that a test has made."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self._marks = marks

    async def read(self, since: datetime, until: datetime) -> Sequence[Mark]:
        return [mark for mark in self._marks if since <= mark.at < until]


def mark(app: Starlette, *marks: Mark) -> None:
    """Have an app's charts show these marks, the oldest first, and no others."""
    made: Service[MadeMarks] = Service(make=lambda _: MadeMarks(marks))
    board = app.state.dashboard
    board.sections = Sections(Section(name="made", marks=made), *board.sections)


def dashboards_in(app: object) -> Iterator[Dashboard]:
    """Yield the dashboard that an app is, or those that are mounted in it or wrapped by it."""
    dashboard = getattr(getattr(app, "state", None), "dashboard", None)
    if isinstance(dashboard, Dashboard):
        yield dashboard
        return
    for inner in (getattr(app, "app", None), getattr(app, "_app", None)):
        if inner is not None:
            yield from dashboards_in(inner)
    for route in getattr(app, "routes", ()):
        yield from dashboards_in(getattr(route, "app", None))


class Later:
    """A driver whose database's clock goes as a test says."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.by = timedelta()
        self.error: Exception | None = None
        """Is raised in place of reading."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def reading(self, *, timeout: timedelta | None = None) -> AbstractAsyncContextManager[Executor]:
        return self._reading(timeout)

    @asynccontextmanager
    async def _reading(self, limit: timedelta | None) -> AsyncIterator[Any]:
        if self.error is not None:
            raise self.error
        async with self._driver.reading(timeout=limit) as executor:
            yield _LaterExecutor(executor, self.by)


class _LaterExecutor:
    def __init__(self, executor: Any, by: timedelta) -> None:
        self._executor = executor
        self._by = by

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    @property
    def sql(self) -> Any:
        return self

    async def row(self, block: str, *values: Any, **slots: Any) -> Any:
        row = await self._executor.sql.row(block, *values, **slots)
        return row._replace(now=row.now + self._by) if block == "figure_clock_get" else row
