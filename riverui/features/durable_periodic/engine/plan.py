"""The leader's view of durable periodic jobs: their rows, and the changes to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from riverui.domain.periodic import NextRun
from riverui.domain.schedules import NEVER, CronSchedule, cron_text
from riverui.engine.lead.maintenance.service import ServiceContext
from riverui.engine.lead.next_runs import NextRuns, Overtaken
from riverui.engine.lead.periodic import PeriodicJob
from riverui.engine.waiting import between
from riverui.errors import ConfigError
from riverui.features.durable_periodic.domain import DurablePeriodicRow
from riverui.features.durable_periodic.engine.config import DurablePeriodicJobsConfig
from riverui.features.durable_periodic.store import DurablePeriodicStore
from riverui.storage.interface import Executor

_CHANGED_FOR = 30
"""How many times longer a job is kept that a user has paused or rescheduled, so that a long outage
does not undo such decisions.
"""
_TOUCHES = 24
"""How often a job is touched before it would become stale: hourly for a day."""


class DurablePlan(NextRuns):
    """The rows of durable periodic jobs that this leader has read in its term."""

    durable = True
    look_seconds = 3.0
    """Time between two reads; each is one statement on a table of a few rows."""

    def __init__(self, config: DurablePeriodicJobsConfig, context: ServiceContext) -> None:
        self._config = config
        self._context = context
        self._answered: dict[str, datetime] = {}
        """By id: requested runs that a job was inserted for."""
        self._distrusted: set[str] = set()
        """Jobs whose next run another leader has moved."""
        self._known: set[str] = set()
        """Jobs whose row was read or written in this term: those that may be touched."""
        self.loaded = False
        self._rows: dict[str, DurablePeriodicRow] = {}
        self._saves: dict[str, NextRun] = {}
        """Changes to write without inserting a job."""
        self._touched = float("-inf")
        self._until: dict[str, datetime] = {}
        """By id: the new times of overdue jobs that are spread."""

    def reset(self) -> None:
        """Clear everything, for a new term."""
        self._answered, self._rows, self._saves, self._until = {}, {}, {}, {}
        self._distrusted, self._known = set(), set()
        self.loaded, self._touched = False, float("-inf")

    async def look(self, jobs: Iterable[PeriodicJob]) -> Collection[str]:
        """Read the rows of these jobs; return the ids of those that a user or another leader has
        changed since.
        """
        known = {job.id: job for job in jobs if job.id is not None}
        if not known:
            self.loaded = True
            return ()
        async with self._context.executor() as executor:
            storage, stale = DurablePeriodicStore(executor), self._config.stale_threshold
            now = self._context.now()
            if due := now - self._touched >= stale.total_seconds() / _TOUCHES:
                if self.loaded:
                    await self._touch(executor, known)
                await storage.durable_periodic_reap(
                    unused_for=stale, changed_for=_CHANGED_FOR * stale
                )
            rows = await storage.durable_periodic_list(ids=list(known), limit=len(known))
            found = {row.id: row for row in rows}
            # Expired rows were not read and stay expired.
            self._known |= found.keys()
            if due and not self.loaded:
                await self._touch(executor, known)
        if due:
            self._touched = now
        changed = [
            each
            for each, row in found.items()
            if each in self._distrusted
            or (self.loaded and self._changed_at(each) != row.changed_at)
        ]
        self._distrusted.clear()
        begins = not self.loaded
        self._rows, self.loaded = found, True
        if begins:
            self._spread(known)
        for each in changed:
            self._saves.pop(each, None)
            self._until.pop(each, None)
        return changed

    def effective(self, job: PeriodicJob) -> PeriodicJob:
        """Return the job with the schedule that a user set, if there is one."""
        row = self._row(job)
        if row is None or not row.schedule:
            return job
        try:
            return replace(job, schedule=CronSchedule(row.schedule))
        except ConfigError:
            return job

    def paused(self, job: PeriodicJob) -> bool:
        """Return whether the job is paused."""
        row = self._row(job)
        return row is not None and row.paused_at is not None

    def first(self, job: PeriodicJob, now: datetime) -> datetime | None:
        """Return the job's next run by its row; None if its schedule decides."""
        row = self._row(job)
        if row is None or row.next_run_at is None:
            return None
        return self._until.get(row.id) or self._ratcheted(row.next_run_at, now)

    def requested(self, job: PeriodicJob) -> NextRun | None:
        """Return the run that a user requested and that no job was inserted for yet."""
        row = self._row(job)
        if row is None or row.run_requested_at is None:
            return None
        asked = row.run_requested_at
        if (last := self._answered.get(row.id)) is not None and asked <= last:
            return None
        self._answered[row.id] = asked
        return NextRun(row.id, NEVER, None, asked)

    def following(self, job: PeriodicJob, at: datetime, following: datetime) -> NextRun | None:
        """Return what is written with the run at a time; None for a job without an id."""
        return None if job.id is None else NextRun(job.id, following, at)

    def save(self, job: PeriodicJob, at: datetime, planned_at: datetime | None) -> None:
        """Write the job's next run later, without inserting a job now."""
        if job.id is not None:
            known = self._saves.get(job.id)
            if planned_at is not None and known is not None:
                planned_at = known.planned_at
            self._saves[job.id] = NextRun(job.id, at, planned_at)

    async def write(self) -> Collection[str]:
        """Write the changes that need no inserted job; return the ids that others have changed."""
        if not self._saves:
            return ()
        saves = self._saves
        async with self._context.executor() as executor:
            saved = await DurablePeriodicStore(executor).durable_periodic_save(list(saves.values()))
        self._saves = {}
        if not self._known.issuperset(saved):
            # Soon, so that pages show their schedules.
            self._touched = float("-inf")
        self._known.update(saved)
        overtaken = saves.keys() - set(saved)
        self._distrusted |= overtaken
        return overtaken

    def distrust(self, ids: Collection[str]) -> None:
        """Plan these jobs again from their rows at the next read."""
        self._distrusted.update(ids)

    def beside(self, saves: Iterable[NextRun]) -> Callable[[Executor], Awaitable[None]] | None:
        """Return a function that writes the next runs in the transaction that inserts their jobs,
        and raises Overtaken; None if there is nothing to write.
        """
        merged = list(_merged(saves))
        if not merged:
            return None

        async def write(executor: Executor) -> None:
            saved = await DurablePeriodicStore(executor).durable_periodic_save(merged)
            if missed := Counter(save.id for save in merged) - Counter(saved):
                raise Overtaken(missed)

        return write

    def _changed_at(self, id: str) -> datetime | None:
        row = self._rows.get(id)
        return row and row.changed_at

    def _row(self, job: PeriodicJob) -> DurablePeriodicRow | None:
        return self._rows.get(job.id) if job.id is not None else None

    def _ratcheted(self, at: datetime, now: datetime) -> datetime:
        ratchet = self._config.next_run_at_ratchet
        if ratchet is None:
            return at
        try:
            return max(at, ratchet(at, now))
        except Exception:
            # The program's own code may raise anything.
            self._context.logger.exception("periodic jobs: next_run_at_ratchet failed")
            return at

    def _spread(self, known: Collection[str]) -> None:
        """If many jobs are overdue, give each a time in the near future."""
        now, threshold = self._context.clock(), self._config.start_stagger_threshold
        overdue = [
            row.id
            for row in self._rows.values()
            if row.id in known and row.next_run_at is not None and row.next_run_at <= now
        ]
        if threshold and len(overdue) >= threshold:
            most = self._config.start_stagger_spread.total_seconds()
            self._until = {each: now + timedelta(seconds=between(0, most)) for each in overdue}

    async def _touch(self, executor: Executor, jobs: Mapping[str, PeriodicJob]) -> None:
        schedules = {
            each: cron_text(job.schedule) for each, job in jobs.items() if each in self._known
        }
        if schedules:
            await DurablePeriodicStore(executor).durable_periodic_touch(schedules)


def _merged(saves: Iterable[NextRun]) -> Iterable[NextRun]:
    """Merge the runs of each id into one save, from its first run to after its last; leave answers
    to requests as they are.
    """
    planned: dict[str, NextRun] = {}
    for save in saves:
        if save.run_requested_at is not None:
            yield save
            continue
        first = planned.get(save.id)
        if first is not None:
            save = save._replace(planned_at=first.planned_at)
        planned[save.id] = save
    yield from planned.values()
