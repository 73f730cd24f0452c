"""Plays one case in a database of its own, and reads its reports at each time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from msgspec import Struct

from bench.incidents.background import Background, make
from bench.incidents.case import Truth
from bench.incidents.causes import BEFORE, CAUSES, ODDITIES
from bench.incidents.figures import Minutes, earlier
from bench.incidents.reports import PATIENCE, Problem, problems, report
from bench.incidents.rows import (
    CLOCK,
    Connection,
    Table,
    copy,
    line,
    past,
    set_clock,
    show_others,
)
from bench.incidents.world import World
from riverui.domain.health import HealthReport
from riverui.features.figures.domain import HOUR, TEN_MINUTES, Rollup, begin, fold
from riverui.features.figures.store import RollupStore
from riverui.storage.connect import connect
from riverui.storage.migrations import migrate

MINUTES = (1, 5, 15, 40)
"""Minutes since the beginning at which reports are read."""
_OURS = "public,ours,pg_catalog"
_ALONE = "public,pg_catalog"
_LOCK = b"lock table public.river_job in share row exclusive mode"
_OPEN = b"select pg_current_xact_id()"
_WAITS = b"update public.river_job set attempt = attempt where id = -1"


class Result(Struct, frozen=True, kw_only=True):
    """What one report said of one case, and whether that is right."""

    name: str
    seed: int
    minutes: int
    reader: str
    healthy: bool
    shown: bool
    right: Sequence[str]
    """Causes that were said, with the right name."""
    wrong: Sequence[str]
    """Causes that were said and are not true."""
    headline: str
    problems: Sequence[Problem]
    names: Sequence[str]


class Server:
    """Databases for cases: one of each background, of which a case gets a copy."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._filled: tuple[int, str] | None = None
        self._start = datetime.now(UTC)

    async def prepare(self) -> None:
        """Make an empty database with all tables."""
        await self._make("", "template1")
        driver = connect(self.url(""), max_size=1)
        for tables in ("main", "riverui"):
            await migrate(driver, "up", line=tables)
        await driver.close()
        async with await self.connect("") as connection:
            await connection.execute(CLOCK.read_bytes())

    async def close(self) -> None:
        """Drop all databases."""
        for end in ("", "_background", "_case"):
            await self._drop(end)

    async def play(
        self, name: str, seed: int, minutes: Sequence[int], readers: Sequence[str]
    ) -> list[Result]:
        """Play a case on a background; nothing if the background cannot have it."""
        found = _case(name, seed)
        if found is None:
            return []
        world, truth = found
        await self._fill(_background(name, seed), name if name in BEFORE else "")
        await self._make("_case", f"{self._name}_background")
        results: list[Result] = []
        async with await self.connect("_case") as connection:
            case = _Case(self, connection, world, self._start)
            async with case.sessions():
                for minute in minutes:
                    if minute < truth.ends:
                        await case.show(minute * 60.0)
                        for reader in readers:
                            heard = await case.report(reader)
                            results.append(_judged(name, seed, minute, reader, truth, heard))
        return results

    async def _fill(self, background: Background, variant: str) -> None:
        """Make the database of a background, unless it is there."""
        if self._filled == (background.seed, variant):
            return
        rng = Random(f"start {background.seed}")
        self._start = begin(datetime.now(UTC), HOUR) + timedelta(seconds=3_600 * rng.random())
        await self._make("_background", self._name)
        async with await self.connect("_background") as connection:
            jobs = past(background)
            self.first_id = len(jobs) + 1
            await copy(connection, filter(None, (line(job, 0.0, self._start) for job in jobs)))
            await connection.execute("analyze public.river_job")
        driver = connect(self.url("_background", _OURS), max_size=1)
        async with driver.transaction() as transaction:
            await RollupStore(transaction).rollup_put(earlier(background, self._start))
        await driver.close()
        self._filled = (background.seed, variant)

    def url(self, end: str, path: str = "") -> str:
        """Return the URL of a database, whose tables are looked for on this path."""
        parts = urlsplit(self._url)
        options = [parts.query] if parts.query else []
        options += [f"options={quote(f'-csearch_path={path} -cjit=off')}"] if path else []
        return urlunsplit(parts._replace(path=f"/{self._name}{end}", query="&".join(options)))

    async def connect(self, end: str, application: str = "bench") -> Connection:
        """Return a connection to a database, which sees riverui's tables."""
        return await psycopg.AsyncConnection.connect(
            self.url(end, "pg_catalog,public,ours"), autocommit=True, application_name=application
        )

    async def _make(self, end: str, template: str) -> None:
        await self._drop(end)
        await self._execute(
            f"create database {self._name}{end} template {template} strategy file_copy"
        )

    async def _drop(self, end: str) -> None:
        await self._execute(f"drop database if exists {self._name}{end} with (force)")

    async def _execute(self, statement: str) -> None:
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            await connection.execute(statement.encode())


class _Case:
    """One case while it is played."""

    def __init__(
        self, server: Server, connection: Connection, world: World, start: datetime
    ) -> None:
        self._server = server
        self._connection = connection
        self._world = world
        self._start = start
        jobs = world.jobs()
        for number, job in enumerate(jobs, server.first_id):
            job.id = number
        self._table = Table(connection, start, jobs)
        self._minutes = Minutes(jobs, start)
        self._stored = 0
        self._at = 0.0
        self._alone = connect(server.url("_case", _ALONE), max_size=3, page_timeout=PATIENCE)
        self._ours = connect(server.url("_case", _OURS), max_size=3, page_timeout=PATIENCE)
        self._rng = Random(f"case {world.background.seed}")

    @contextlib.asynccontextmanager
    async def sessions(self) -> AsyncIterator[None]:
        """Show the beginning, and open the sessions that belong to the incident."""
        await self.show(0.0)
        async with contextlib.AsyncExitStack() as stack:
            if name := self._world.locks or self._world.idle:
                session = await stack.enter_async_context(await self._server.connect("_case", name))
                await session.set_autocommit(False)
                await session.execute(_LOCK if self._world.locks else _OPEN)
            if self._world.locks:
                waiting = await self._server.connect("_case", "worker")
                stack.push_async_callback(waiting.close)
                waiting.pgconn.send_query(_WAITS)
                await asyncio.sleep(0.05)
            self._begun = datetime.now(UTC)
            yield
        await self._alone.close()
        await self._ours.close()

    async def show(self, at: float) -> None:
        """Make the database what it is at this time."""
        self._at = at
        if not (self._world.locks and at):
            # Nothing changes while the table is locked.
            await self._table.show(at)
        await show_others(self._connection, self._world, at, self._start, self._rng)
        self._minutes.play(at)

    async def report(self, reader: str) -> HealthReport:
        """Return what a reader reports."""
        now = self._start + timedelta(seconds=self._at)
        ours, settled = reader == "ours", self._minutes.settled(self._at)
        await set_clock(self._connection, now, behind=self._start - self._begun)
        driver = self._ours if ours else self._alone
        if ours and (new := settled[self._stored :]):
            async with driver.transaction() as transaction:
                await RollupStore(transaction).rollup_put([*new, *_folded(settled)])
            self._stored = len(settled)
        running = settled if reader == "dashboard" else None
        return await report(driver, now, minutes=running)


def possible(name: str, seed: int) -> bool:
    """Return whether this background can have this incident."""
    return _case(name, seed) is not None


def _case(name: str, seed: int) -> tuple[World, Truth] | None:
    """Return what an incident or oddity changes, and its truth; None if it is not possible."""
    world = World(_background(name, seed), Random(f"{name} {seed}"))
    if name in ODDITIES:
        ODDITIES[name](world)
        return world, Truth()
    truth = CAUSES[name](world)
    return None if truth is None else (world, truth)


def _background(name: str, seed: int) -> Background:
    """Return the background of a case."""
    background = make(seed)
    if name in BEFORE:
        BEFORE[name](background)
    return background


def _folded(minutes: Sequence[Rollup]) -> Iterator[Rollup]:
    """Yield the rollups of ten minutes that are complete."""
    parts: dict[datetime, list[Rollup]] = {}
    for rollup in minutes:
        parts.setdefault(begin(rollup.at, TEN_MINUTES), []).append(rollup)
    for at, own in parts.items():
        if len(own) == 10:
            yield fold(own, at=at, span=TEN_MINUTES)


def _judged(
    name: str, seed: int, minutes: int, reader: str, truth: Truth, heard: HealthReport
) -> Result:
    """Return whether what was said of a case is right."""
    causes = (truth.alone if reader != "ours" else ()) or truth.causes
    names = [str(truth.job.id)] if truth.job else truth.names
    true = {*truth.also, *truth.causes, *(["late"] if truth.causes else [])}
    right, wrong, said = [], [], problems(heard)
    for problem in said:
        named = not names or any(each in problem.words for each in names)
        if problem.cause in causes and named:
            right.append(problem.cause)
        elif problem.cause in causes or problem.cause not in true:
            wrong.append(problem.cause)
    return Result(
        name=name,
        seed=seed,
        minutes=minutes,
        reader=reader,
        healthy=not truth.causes,
        shown=bool(truth.causes) and truth.shown(minutes),
        right=right,
        wrong=wrong,
        headline=f"{heard.level.value}: {heard.headline}",
        problems=said,
        names=names,
    )
