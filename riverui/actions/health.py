"""Finds out whether a database's jobs are well, for pages, the API and the command line."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from riverui.domain.explain import LATE_AFTER
from riverui.domain.figures import OTHER, WINDOWS, Figures, Tally, Window
from riverui.domain.health import HealthReport, Level
from riverui.domain.health_facts import (
    ErrorSample,
    HealthFacts,
    OverdueJobs,
    QueueWaiting,
    ReportingClient,
    UsualHour,
)
from riverui.domain.health_late import late_queues, waiting_long
from riverui.domain.health_success import failing_kinds
from riverui.domain.health_verdict import judge
from riverui.domain.job_facts import Unread
from riverui.domain.jobs import JobState
from riverui.domain.json import ODD_VALUE
from riverui.errors import DatabaseError
from riverui.features.heartbeats.store import CLIENT_TABLE, ClientStore
from riverui.features.marks.domain import Mark
from riverui.storage.interface import HEALTH, OWN_TABLES, Driver, Executor
from riverui.storage.interface.params import Field, JobFilter, JobOrder, JobPageParams, Op, Term

log = logging.getLogger("riverui")
_CAP = 1_000
"""Jobs of each state and queue that are counted: more only matter where a queue is late."""
_QUEUES = 200
"""Queues that are looked at, as many as the list of queues shows."""
_CLIENTS = 500
"""Clients whose signs of life are read, the longest silent first."""
_WAITING = 20
"""Queues whose own figures are read, the longest waiting first: they tell what is usual there."""
_LATE = 3
"""Queues that are looked into, the latest first."""
_KINDS = 10
"""Kinds whose own figures are read: those that failed most, and those that late queues hold."""
_ERRORS = 20
"""Failed jobs whose errors are read, of the kind that failed most."""
_ERROR = 300
"""Characters of each of those errors."""
_MARKED = timedelta(hours=2)
"""How far back marks are read: an hour of figures, and the time before it."""
_NO_FIGURES = Unread(why="Figures are not gathered here.")

_Fact = TypeVar("_Fact")


class Reader(Protocol):
    """Tells figures, as a dashboard's collector does."""

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the figures of a window, of one queue or of one kind where they are named."""
        ...


class Hour(Protocol):
    """What was done in one hour of the day, on the days before."""

    @property
    def tally(self) -> Tally:
        """What was done then."""
        ...

    @property
    def days(self) -> int:
        """On how many of the last seven days something is known of that hour."""
        ...


class UsualReader(Protocol):
    """Tells what is usual, as stored figures do."""

    async def usual_hour(self, at: datetime, *, queue: str = "", kind: str = "") -> Hour | None:
        """Return what was done in the same hour of the last seven days, of one queue or kind where
        they are named; None where nothing is known of it. Raises as the database does.
        """
        ...


class MarkReader(Protocol):
    """Tells marks, as a dashboard does that keeps them."""

    async def read(self, since: datetime, until: datetime) -> Sequence[Mark]:
        """Return the marks from `since` on and before `until`."""
        ...


async def health_report(
    driver: Driver,
    figures: Reader | None,
    *,
    usual: UsualReader | None = None,
    marks: MarkReader | None = None,
    now: datetime | None = None,
) -> HealthReport:
    """Return the verdict on a database's jobs. `now` is for what is played in the past.

    Each fact is read by bounded statements: one that cannot be read makes its checks say that they
    cannot tell. Only where something looks wrong is there a second
    round, and the same hour of the last week is asked for.
    """
    return judge(await health_facts(driver, figures, usual=usual, marks=marks, now=now))


async def health_facts(
    driver: Driver,
    figures: Reader | None,
    *,
    usual: UsualReader | None = None,
    marks: MarkReader | None = None,
    now: datetime | None = None,
) -> HealthFacts:
    """Return what was found; see `health_report`."""
    now = now or datetime.now(UTC)
    async with _Reading(driver) as reading:
        facts = await _closer(reading, figures, await _first(reading, figures, now))
        report = judge(facts)
        calm = {report.flow.level, report.success.level} <= {Level.OK, Level.UNKNOWN}
        if calm:
            return facts
        if usual is not None:
            facts = await _weekly(usual, facts)
            facts = await _closer(reading, figures, facts)
        blamed = judge(facts).success.culprit
        if blamed is not None and blamed.what == "kind":
            facts = replace(facts, errors=await _errors(reading, blamed.name))
            if marks is not None:
                until = now + timedelta(minutes=1)
                facts = replace(facts, marks=await marks.read(now - _MARKED, until))
        return facts


class _Reading:
    """Reads facts, all in one transaction as long as none fails: each failure costs one fact."""

    def __init__(self, driver: Driver) -> None:
        self.capable = HEALTH in driver.capabilities
        self._driver = driver
        self._stack = AsyncExitStack()
        self._executor: Executor | None = None

    async def __aenter__(self) -> _Reading:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def fact(self, read: Callable[[Executor], Awaitable[_Fact]]) -> _Fact | Unread:
        """Return what `read` gives, or that it could not be read."""
        try:
            if self._executor is None:
                self._executor = await self._stack.enter_async_context(self._driver.reading())
            return await read(self._executor)
        except DatabaseError as error:
            await self._end()
            return Unread(why=error.public)
        except ODD_VALUE:
            # Whatever stands in the tables, the other facts are still told.
            log.exception("a fact of the health report could not be read")
            await self._end()
            return Unread(why="Its rows hold a value that cannot be read.")

    async def _end(self) -> None:
        self._executor = None
        with suppress(DatabaseError):
            await self._stack.aclose()


async def _first(reading: _Reading, figures: Reader | None, now: datetime) -> HealthFacts:
    hour = _NO_FIGURES if figures is None else await figures.read(WINDOWS["1h"])
    queues = await reading.fact(lambda db: db.queue_list(cap=_CAP, limit=_QUEUES))
    leader = await reading.fact(lambda db: db.leader_get())
    if not reading.capable:
        unread = Unread(why=HEALTH.missing)
        return HealthFacts(
            now=now,
            queues=queues,
            queue_cap=_CAP,
            queue_limit=_QUEUES,
            leader=leader,
            running=unread,
            overdue=unread,
            lost=unread,
            database=unread,
            hour=hour,
        )
    reporting = await reading.fact(lambda db: _reporting(db, now))
    overdue: OverdueJobs | Unread
    if isinstance(queues, Unread):
        overdue = queues
    else:
        # Those with jobs that only the leader makes available.
        later = [row.queue.name for row in queues if row.scheduled or row.retryable]
        due = now - LATE_AFTER
        overdue = await reading.fact(lambda db: HEALTH.on(db).health_overdue(later, due_before=due))
    return HealthFacts(
        now=now,
        queues=queues,
        queue_cap=_CAP,
        queue_limit=_QUEUES,
        leader=leader,
        running=await reading.fact(lambda db: HEALTH.on(db).health_running(cap=_CAP)),
        overdue=overdue,
        lost=await reading.fact(lambda db: HEALTH.on(db).health_lost()),
        database=await reading.fact(lambda db: HEALTH.on(db).health_database()),
        hour=hour,
        reporting={} if isinstance(reporting, Unread) else reporting,
    )


async def _reporting(db: Executor, now: datetime) -> Mapping[str, ReportingClient]:
    """Return the clients that give signs of life; none without the table for them."""
    if OWN_TABLES not in db.capabilities:
        return {}
    if not await CLIENT_TABLE.exists(db):
        return {}
    return {
        row.id: ReportingClient(
            seen_at=row.heartbeat_at,
            lost=row.declared_dead_at is not None or now >= row.dead_at,
            slots=row.queues,
            kinds=row.kinds,
        )
        for row in await ClientStore(db).client_list(limit=_CLIENTS)
    }


async def _closer(reading: _Reading, figures: Reader | None, facts: HealthFacts) -> HealthFacts:
    """Return the facts with what is known of the queues and kinds that look wrong, besides what
    they have already.
    """
    hour = WINDOWS["1h"]
    if figures is not None:
        waits = [row.queue.name for row in waiting_long(facts)[:_WAITING]]
        read = {
            name: await figures.read(hour, queue=name)
            for name in waits
            if name not in facts.queue_hours
        }
        facts = replace(facts, queue_hours={**facts.queue_hours, **read})
    late = [queue.name for queue in late_queues(facts)[:_LATE] if queue.name not in facts.waiting]
    if late and reading.capable:
        found = await reading.fact(lambda db: HEALTH.on(db).health_waiting(late, now=facts.now))
        more = {name: found if isinstance(found, Unread) else found[name] for name in late}
        facts = replace(facts, waiting={**facts.waiting, **more})
    if figures is None or isinstance(facts.hour, Unread):
        return facts
    kinds = [kind for kind in _suspects(facts, facts.waiting) if kind not in facts.kind_hours]
    hours = {name: await figures.read(hour, kind=name) for name in kinds}
    return replace(facts, kind_hours={**facts.kind_hours, **hours})


def _suspects(facts: HealthFacts, waiting: Mapping[str, QueueWaiting | Unread]) -> list[str]:
    """Return the kinds whose own figures may tell a cause."""
    if isinstance(facts.hour, Unread):
        return []
    kinds = dict.fromkeys(failing_kinds(facts.hour.pairs, _KINDS))
    for found in waiting.values():
        if not isinstance(found, Unread) and found.kinds:
            kinds[max(found.kinds, key=lambda kind: found.kinds[kind].jobs)] = None
    if not isinstance(facts.running, Unread):
        held: dict[str, dict[str, int]] = {name: {} for name in waiting}
        for job in facts.running.jobs:
            if job.queue in held:
                held[job.queue][job.kind] = held[job.queue].get(job.kind, 0) + 1
        for counts in held.values():
            if counts:
                kinds[max(counts, key=lambda kind: counts[kind])] = None
    kinds.pop(OTHER, None)
    return list(kinds)


async def _weekly(usual: UsualReader, facts: HealthFacts) -> HealthFacts:
    """Return the facts with the same hour of the last days beside them."""

    async def hour(queue: str = "", kind: str = "") -> UsualHour | None:
        try:
            found = await usual.usual_hour(facts.now, queue=queue, kind=kind)
        except DatabaseError:
            # Then the hour before is compared with.
            return None
        return None if found is None else UsualHour(tally=found.tally, days=found.days)

    queues = {name: await hour(queue=name) for name in facts.queue_hours}
    kinds = {name: await hour(kind=name) for name in facts.kind_hours}
    return replace(
        facts,
        week=await hour(),
        queue_weeks={name: found for name, found in queues.items() if found is not None},
        kind_weeks={name: found for name, found in kinds.items() if found is not None},
    )


async def _errors(reading: _Reading, kind: str) -> Sequence[ErrorSample] | Unread:
    """Return the newest errors of a kind's failed jobs."""
    params = JobPageParams(
        filter=JobFilter(
            states=(JobState.RETRYABLE, JobState.DISCARDED),
            terms=(Term(field=Field.KIND, op=Op.EQ, values=(kind,)),),
        ),
        limit=_ERRORS,
        order=JobOrder.ID_DESC,
    )
    page = await reading.fact(lambda db: db.job_list(params))
    if isinstance(page, Unread):
        return page
    return [
        ErrorSample(kind=row.kind, error=row.last_error[:_ERROR])
        for row in page.rows
        if row.last_error
    ]
