"""Make the health report of a database's jobs, for pages, the API and the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from riverui.actions.facts import FactReader
from riverui.domain.explain.facts import LATE_AFTER
from riverui.domain.figures import OTHER, WINDOWS, Figures, PastColumn, Window
from riverui.domain.findings import Level, Unread
from riverui.domain.health import Cause, HealthReport
from riverui.domain.health.baseline import Baseline, Subject
from riverui.domain.health.facts import (
    DatabaseState,
    HealthFacts,
    OverdueJobs,
    ReportingClient,
    UsualHour,
)
from riverui.domain.health.lost import suspect_queues
from riverui.domain.health.queues import late_queues, waiting_long
from riverui.domain.health.slo import Objective, ObjectiveFigures
from riverui.domain.health.success import failing_kinds
from riverui.domain.health.verdict import judge, suspicious
from riverui.domain.jobs import JobState
from riverui.domain.marks import Mark
from riverui.errors import DatabaseError
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.features.heartbeats.store import ClientStore
from riverui.storage.interface import SQL, Driver, Executor
from riverui.storage.interface.params import Field, JobFilter, JobOrder, JobPageParams, Op, Term
from riverui.storage.stores.health import HealthStore

_CAP = 1_000
"""Most jobs counted of each state and queue: more only matter if a queue is late."""
_QUEUES = 200
"""Most queues read, as many as the list of queues shows."""
_CLIENTS = 500
"""Most clients whose heartbeats are read, the longest silent first."""
_PERIODIC = 500
"""Most durable periodic jobs that are read."""
_WAITING = 20
"""Most queues whose own figures are read, to know what is usual there; longest waiting first."""
_LATE = 3
"""Most late queues examined, the latest first."""
_KINDS = 10
"""Most kinds whose own figures are read: those that failed most, and those in late queues."""
_RUNNING = 5
"""Most kinds whose own figures are read because many of their jobs run."""
_ERRORS = 20
"""Most failed jobs whose errors are read, of the kind that failed most."""
_ERROR = 300
"""Characters of each of those errors."""
_MARKED = timedelta(hours=2)
"""How far back marks are read: an hour of figures, and the time before it."""
_HOUR = WINDOWS["1h"]
_NO_FIGURES = Unread(why="Figures are not collected.")


class FigureReader(Protocol):
    """Reads figures, as a dashboard's collector does."""

    def arrivals(self) -> Mapping[str, Sequence[int]]:
        """Return how many jobs of each kind were inserted in each minute of the last hour."""
        ...

    def failed_jobs(self, since: datetime) -> Mapping[str, Sequence[datetime]]:
        """Return for each kind the minutes in which its jobs that failed since then failed last."""
        ...

    async def read(self, window: Window, *, queue: str = "", kind: str = "") -> Figures:
        """Return the figures of a window, of one queue or kind if it is given."""
        ...


class UsualReader(Protocol):
    """Reads what was usual, as a dashboard does."""

    async def past(self, at: datetime, *, queue: str = "", kind: str = "") -> Sequence[PastColumn]:
        """Return the hours before the last one, of one queue or kind if it is given. Raises
        DatabaseError.
        """
        ...

    async def usual_hour(
        self, at: datetime, *, queue: str = "", kind: str = ""
    ) -> UsualHour | None:
        """Return the figures of the same hour of the last seven days, of one queue or kind if it is
        given; None if there are none. Raises DatabaseError.
        """
        ...


class MarkReader(Protocol):
    """Reads marks, from the database or from a dashboard's cache."""

    async def read(self, since: datetime, until: datetime) -> Sequence[Mark]:
        """Return the marks from `since` on and before `until`."""
        ...


async def health_report(
    driver: Driver,
    figures: FigureReader | None,
    *,
    usual: UsualReader | None = None,
    marks: MarkReader | None = None,
    baselines: Mapping[tuple[Cause, Subject], Baseline] = {},
    objectives: Sequence[Objective] = (),
    now: datetime | None = None,
) -> HealthReport:
    """Return the health report of a database's jobs. `now` is for incidents in the past. Problems
    that go on are compared with their `baselines`, those of their first findings, so that nothing
    that goes on becomes usual.

    Each fact is read by statements with a time limit; one that cannot be read makes its checks
    unknown. If something may be wrong, the hours before are read too; if it is wrong, the same hour
    of the last week.
    """
    now = now or datetime.now(UTC)
    async with FactReader(driver) as reader:
        facts = await _first(reader, figures, now)
        facts.baselines = baselines
        if figures is not None:
            facts.objectives = [
                ObjectiveFigures(
                    objective=each,
                    hour=await figures.read(_HOUR, queue=each.queue),
                    hours=await figures.read(WINDOWS["6h"], queue=each.queue),
                )
                for each in objectives
            ]
        await _closer(reader, figures, facts)
        if usual is not None and suspicious(facts):
            # They show what was usual before a problem, however long it has lasted.
            await _past(usual, facts)
            await _closer(reader, figures, facts)
            await _past(usual, facts)
        report = judge(facts)
        if {report.flow.level, report.success.level} <= {Level.OK, Level.UNKNOWN}:
            return report
        if usual is not None:
            await _weekly(usual, facts)
            await _closer(reader, figures, facts)
        blamed = judge(facts).success.culprit
        if blamed is not None and blamed.what == "kind":
            facts.errors = await _errors(reader, blamed.name)
            if marks is not None:
                facts.marks = await marks.read(now - _MARKED, now + timedelta(minutes=1))
        return judge(facts)


async def _first(reader: FactReader, figures: FigureReader | None, now: datetime) -> HealthFacts:
    """Return the facts that every report needs."""
    fact = reader.fact
    hour = _NO_FIGURES if figures is None else await figures.read(_HOUR)
    queues = await fact(lambda db: db.queues.list(cap=_CAP, limit=_QUEUES))
    leader = await fact(lambda db: db.leader.get())
    reporting = await fact(lambda db: _reporting(db, now))
    planned = await fact(_planned)
    overdue: OverdueJobs | Unread
    if isinstance(queues, Unread):
        overdue = queues
    else:
        # Queues with jobs that only the leader makes available.
        later = [row.queue.name for row in queues if row.scheduled or row.retryable]
        due = now - LATE_AFTER
        overdue = await fact(lambda db: HealthStore(db).health_overdue(later, due_before=due))
    return HealthFacts(
        now=now,
        queues=queues,
        queue_cap=_CAP,
        queue_limit=_QUEUES,
        leader=leader,
        running=await fact(lambda db: HealthStore(db).health_running(cap=_CAP)),
        overdue=overdue,
        lost=await fact(lambda db: HealthStore(db).health_lost()),
        database=await fact(_server),
        rhythms=await fact(lambda db: HealthStore(db).health_rhythms()),
        arrivals={} if figures is None else figures.arrivals(),
        failed_jobs={} if figures is None else figures.failed_jobs(now - _HOUR.span),
        planned={} if isinstance(planned, Unread) else planned,
        hour=hour,
        reporting={} if isinstance(reporting, Unread) else reporting,
    )


async def _server(db: Executor) -> DatabaseState | None:
    """Return the state of the server; None for a file."""
    return await HealthStore(db).health_database() if SQL in db.capabilities else None


async def _reporting(db: Executor, now: datetime) -> Mapping[str, ReportingClient]:
    """Return the clients that send heartbeats; none without their table."""
    if not await ClientStore.installed(db):
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


async def _planned(db: Executor) -> Mapping[str, datetime]:
    """Return the next runs of durable periodic jobs that are not paused; none without a table."""
    if not await DurablePeriodicStore.installed(db):
        return {}
    rows = await DurablePeriodicStore(db).durable_periodic_list(limit=_PERIODIC)
    return {row.id: row.next_run_at for row in rows if row.next_run_at and not row.paused_at}


async def _closer(reader: FactReader, figures: FigureReader | None, facts: HealthFacts) -> None:
    """Read more about the queues and kinds that look wrong."""
    if figures is not None:
        for row in waiting_long(facts)[:_WAITING]:
            name = row.queue.name
            if name not in facts.queue_hours:
                facts.queue_hours[name] = await figures.read(_HOUR, queue=name)
    suspects = suspect_queues(facts)
    wrong = [queue.name for queue in late_queues(facts)[:_LATE]] + suspects[:_LATE]
    asked = list(wrong)
    if suspects and not isinstance(facts.queues, Unread):
        # Who takes jobs of any queue shows whether clients live that hold some for too long.
        asked += [row.queue.name for row in facts.queues[:_WAITING]]
    names = [name for name in dict.fromkeys(asked) if name not in facts.waiting]
    if names:
        found = await reader.fact(lambda db: HealthStore(db).health_waiting(names, now=facts.now))
        for name in names:
            facts.waiting[name] = found if isinstance(found, Unread) else found[name]
    if figures is not None and not isinstance(facts.hour, Unread):
        for kind in _suspects(facts, facts.hour, wrong):
            if kind not in facts.kind_hours:
                facts.kind_hours[kind] = await figures.read(_HOUR, kind=kind)


def _suspects(facts: HealthFacts, hour: Figures, wrong: Sequence[str]) -> list[str]:
    """Return the kinds whose own figures may show a cause: those that fail most, and in each of the
    queues that look `wrong` those with most waiting and most running jobs.
    """
    kinds = dict.fromkeys(failing_kinds(hour.pairs, _KINDS))
    for name in wrong:
        found = facts.waiting_in(name)
        if not isinstance(found, Unread) and found.kinds:
            kinds[max(found.kinds, key=lambda kind: found.kinds[kind].jobs)] = None
        spent = Counter({kind: t.run.sum_us for (of, kind), t in hour.pairs.items() if of == name})
        kinds.update(dict.fromkeys(kind for kind, _ in spent.most_common(2)))
    if not isinstance(facts.running, Unread):
        for name in wrong:
            held = Counter(job.kind for job in facts.running.jobs if job.queue == name)
            kinds.update(dict.fromkeys(kind for kind, _ in held.most_common(1)))
        running = Counter(job.kind for job in facts.running.jobs)
        kinds.update(dict.fromkeys(kind for kind, _ in running.most_common(_RUNNING)))
    kinds.pop(OTHER, None)
    return list(kinds)


async def _past(usual: UsualReader, facts: HealthFacts) -> None:
    """Read the hours before the last one, of all jobs and of what may be wrong."""
    subjects = [
        Subject(),
        *(Subject("queue", name) for name in facts.queue_hours),
        *(Subject("kind", name) for name in facts.kind_hours),
    ]
    try:
        for subject in subjects:
            if subject not in facts.past:
                named = {subject.what: subject.name} if subject.what else {}
                facts.past[subject] = await usual.past(facts.now, **named)
    except DatabaseError:
        # Without them, the report compares with the last hour.
        return


async def _weekly(usual: UsualReader, facts: HealthFacts) -> None:
    """Read the same hour of the last days, of all jobs and of what looks wrong."""
    try:
        facts.week = await usual.usual_hour(facts.now)
        for name in facts.queue_hours:
            if found := await usual.usual_hour(facts.now, queue=name):
                facts.queue_weeks[name] = found
        for kind in facts.kind_hours:
            if found := await usual.usual_hour(facts.now, kind=kind):
                facts.kind_weeks[kind] = found
    except DatabaseError:
        # Without it, the report compares with the hour before.
        return


async def _errors(reader: FactReader, kind: str) -> Sequence[str] | Unread:
    """Return the newest errors of a kind's failed jobs."""
    params = JobPageParams(
        filter=JobFilter(
            states=(JobState.RETRYABLE, JobState.DISCARDED),
            terms=(Term(field=Field.KIND, op=Op.EQ, values=(kind,)),),
        ),
        limit=_ERRORS,
        order=JobOrder.ID_DESC,
    )
    page = await reader.fact(lambda db: db.jobs.list(params))
    if isinstance(page, Unread):
        return page
    return [row.last_error[:_ERROR] for row in page.rows if row.last_error]
