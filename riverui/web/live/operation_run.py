"""One action on all matching jobs: what it is, how far it has come, and the way through the jobs,
chunk by chunk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from riverui.actions import jobs
from riverui.actions.pilot import JobPilot
from riverui.actions.verbs import Given, JobVerb
from riverui.domain.pace import Pace, Watch
from riverui.errors import DatabaseUnavailable, QueryTimeout, RiveruiError
from riverui.features.dead_letters import filter as dead_letter_filter, verbs as dead_letters
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.storage.interface import Driver, Transaction
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.interface.params import (
    Count,
    Field,
    JobCursor,
    JobCutoff,
    JobFilter,
    JobOrder,
    JobPageParams,
    Op,
    Term,
)
from riverui.web.config import DashboardConfig
from riverui.web.live.operation_pace import PaceKeeper, PaceTimes

log = logging.getLogger("riverui.operations")

UNEXPECTED = "Something went wrong; see the server's log."
"""What a page says of an error that nobody foresaw."""
_FILTER_TOLD = 500
"""Characters of a filter in the log."""
SAMPLES = 10
"""Ids of skipped jobs that an operation remembers for each reason: enough to look at some."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationLimits:
    """How much operations may take of the database and of this process's memory."""

    running: int = 3
    """Operations at the same time: each holds a connection while it acts."""
    remembered: int = 100
    """Ended operations that are remembered."""
    found: int = 20_000
    """Jobs that one search finds at most. They are acted on chunk by chunk: without an index, each
    search would look at the same rows again.
    """
    pause: timedelta = timedelta(milliseconds=50)
    """The least time between chunks, so that workers and autovacuum get their turn."""
    slow_chunk: timedelta = timedelta(milliseconds=500)
    """A chunk that takes longer is too large: its rows are locked all the while."""
    smallest_chunk: int = 10
    """Jobs of a chunk, however slow the database is."""
    smallest_window: int = 1_000
    """Jobs that a search without an index looks at, however slow the database is."""
    timeouts: int = 6
    """Timeouts in a row that are answered with smaller chunks; one more, and it gives up."""
    database_away: timedelta = timedelta(minutes=1)
    """How long an operation waits for a database that cannot be reached."""
    pace: PaceTimes = field(default_factory=PaceTimes)


class OperationStatus(StrEnum):
    """How far an operation has come."""

    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(kw_only=True, slots=True, eq=False)
class Operation:
    """One verb on all jobs that match a filter and are not newer than the cutoff."""

    id: str
    verb: JobVerb
    filter: JobFilter
    filter_text: str
    order: JobOrder
    cutoff: JobCutoff
    user: str
    total: Count
    """How many matched when it was started."""
    started_at: datetime
    given: Given
    """What the verb takes besides the jobs."""
    ended_at: datetime | None = None
    status: OperationStatus = OperationStatus.RUNNING
    changed: int = 0
    requested: int = 0
    skipped: dict[SkipReason, int] = field(default_factory=dict)
    skipped_samples: dict[SkipReason, tuple[int, ...]] = field(default_factory=dict)
    error: str = ""
    stopped_by: str | None = None
    """Who asked it to stop; None where nobody did."""
    holder: str = ""
    """The dashboard that works on it, or did so last; empty for those of this process alone."""
    waiting: bool = False
    """Whether no dashboard works on it just now."""
    pace: Pace = field(default_factory=Pace)
    watch: Watch | None = None
    """What became of the jobs; None where that does not matter."""
    unread: Sequence[str] = ()
    """Columns of its row that hold what riverui cannot have written: it is not carried out."""
    task: asyncio.Task[None] | None = None

    @property
    def title(self) -> str:
        """Return the verb for the log, with what it was given."""
        return f"{self.verb.name} ({self.verb.words(self.given)})" if self.given else self.verb.name

    @property
    def filter_told(self) -> str:
        """Return the filter for the log, where one that names thousands of jobs is cut."""
        return self.filter_text[:_FILTER_TOLD]

    @property
    def ended(self) -> bool:
        """Return whether nothing more will happen."""
        return self.ended_at is not None

    @property
    def seen(self) -> int:
        """Return how many jobs were dealt with so far, skipped ones included."""
        return self.changed + self.requested + sum(self.skipped.values())

    @property
    def summary(self) -> str:
        """Return how it stands and who asked for what, for the log."""
        skipped = {reason.value: number for reason, number in self.skipped.items()}
        told = f": {self.error}" if self.error else ""
        return (
            f"{self.title} {self.status.value}: {self.changed} changed, {self.requested} requested,"
            f" skipped {skipped}, asked by {self.user!r} for {self.filter_told!r}{told}"
        )

    def note(self, changes: JobChanges) -> None:
        """Add what one chunk did."""
        self.changed += len(changes.changed)
        self.requested += len(changes.requested)
        for job_id, reason in changes.skipped:
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
            samples = self.skipped_samples.get(reason, ())
            if len(samples) < SAMPLES:
                self.skipped_samples[reason] = (*samples, job_id)


def tell_failure(operation: Operation, error: Exception) -> None:
    """Note why an operation has failed, and log it."""
    extra = {"operation": operation.id}
    if isinstance(error, RiveruiError):
        operation.error = error.public
        log.warning("%s stopped: %s", operation.verb.name, error, extra=extra)
    else:
        operation.error = UNEXPECTED
        log.error("%s failed", operation.verb.name, extra=extra, exc_info=error)


class Ledger(Protocol):
    """Where it is written down how far a run has come."""

    async def open(self) -> JobCursor | None:
        """Bring the operation to what is written down, and return the place to go on from; None
        for the beginning.
        """
        ...

    async def hold(self, transaction: Transaction) -> None:
        """Make sure that the operation is still ours, until the end of the transaction.

        OperationLost where it is not.
        """
        ...

    async def save(
        self,
        transaction: Transaction,
        changes: JobChanges,
        cursor: JobCursor | None,
        watch: Watch | None,
    ) -> None:
        """Write down, with the changes themselves, that every job up to the cursor was dealt with.

        OperationLost where the operation is no longer ours.
        """
        ...

    async def passed(self, cursor: JobCursor | None) -> None:
        """Note that there was nothing to do up to the cursor. OperationLost as above."""
        ...

    async def watched(self, cursor: JobCursor | None) -> None:
        """Write down what has become of the jobs up to the cursor. OperationLost as above."""
        ...


class NoLedger:
    """Writes nothing down: an operation of this process ends with it."""

    async def open(self) -> JobCursor | None:
        """Begin at the beginning."""
        return None

    async def hold(self, transaction: Transaction) -> None:
        """Do nothing: nobody else can have it."""

    async def save(
        self,
        transaction: Transaction,
        changes: JobChanges,
        cursor: JobCursor | None,
        watch: Watch | None,
    ) -> None:
        """Do nothing: the operation itself is all there is."""

    async def passed(self, cursor: JobCursor | None) -> None:
        """Do nothing: the run itself knows where it is."""

    async def watched(self, cursor: JobCursor | None) -> None:
        """Do nothing: the operation itself has it."""


class OperationRun:
    """Goes once through the jobs that match, from one end to the other, and acts on each chunk.

    It pages by keyset, so a job that still matches afterwards (skipped, or asked to stop) is not
    met again.
    """

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        operation: Operation,
        limits: OperationLimits,
        pilot: JobPilot,
        ledger: Ledger | None = None,
    ) -> None:
        self._driver = driver
        self._pilot = pilot
        self._config = config
        self._operation = operation
        self._limits = limits
        self._ledger = ledger or NoLedger()
        self._in_doubt = ledger is not None
        """Whether what is written down may differ from what is known here: at the beginning, and
        once a connection was lost that may have committed.
        """
        self._search_size = limits.found
        """Jobs that the next search finds at most."""
        self._chunk_size = jobs.MAX_IDS
        """Jobs that are acted on in one transaction."""
        self._window = config.search_window
        """Jobs that the next search without an index looks at."""
        self._cursor: JobCursor | None = None
        """Where the next search begins; None at the first."""
        self._reached: JobCursor | None = None
        """Every job up to here was dealt with; None at the beginning."""
        self._found: list[JobCursor] = []
        """The places of jobs to act on before that."""
        self._more = True
        """Whether a search may find more."""
        self._timeouts = 0
        self._away_since: float | None = None
        self._keeper = PaceKeeper(operation, limits.pace)

    async def run(self) -> OperationStatus:
        """Act on chunks until the last job, or until it is asked to stop; return which.

        It stops by itself where too many of the jobs fail again: the operation's error tells.
        Raises QueryTimeout and DatabaseUnavailable where smaller chunks and waiting did not help,
        and OperationLost.
        """
        more, pause = True, self._limits.pause.total_seconds()
        while more:
            if self._operation.status is OperationStatus.STOPPING:
                return OperationStatus.STOPPED
            started = time.monotonic()
            try:
                if self._in_doubt:
                    await self._open()
                if stop := await self._reason_to_stop():
                    self._operation.error = stop
                    return OperationStatus.STOPPED
                if self._operation.status is OperationStatus.RUNNING and self._keeper.may_act():
                    more = await self._step()
            except QueryTimeout:
                self._shrink()
                await asyncio.sleep(pause * 10)
            except DatabaseUnavailable:
                self._in_doubt = not isinstance(self._ledger, NoLedger)
                await self._wait_for_database()
            else:
                self._timeouts, self._away_since = 0, None
                # The slower the database, the longer the others' turn.
                await asyncio.sleep(pause + (time.monotonic() - started) / 4)
                await self._keeper.rest()
        return OperationStatus.DONE

    async def _open(self) -> None:
        """Go on from the place that is written down."""
        self._cursor, self._found, self._more = await self._ledger.open(), [], True
        self._reached, self._in_doubt = self._cursor, False

    async def _step(self) -> bool:
        """Act on one chunk; return whether more may follow.

        Jobs are let go only once they were acted on: a step that fails is done again.
        """
        fresh = not self._found
        if fresh:
            await self._search()
        chunk = self._found[: self._keeper.room(self._chunk_size)]
        ids: Sequence[int] = [place.id for place in chunk]
        reached = self._cursor if len(chunk) == len(self._found) else chunk[-1]
        if ids := ids if fresh else await self._still_matching(ids):
            await self._act(ids, reached)
        else:
            await self._ledger.passed(reached)
        self._reached = reached
        del self._found[: len(chunk)]
        return bool(self._found) or self._more

    async def _act(self, ids: Sequence[int], reached: JobCursor | None) -> None:
        """Act on these jobs and write it down, both or neither."""
        started = time.monotonic()
        limit = self._config.action_timeout
        async with self._driver.transaction(timeout=limit) as transaction:
            await self._ledger.hold(transaction)
            verb = self._operation.verb
            if verb.on_dead_letters:
                changes = await dead_letters.apply_tx(
                    transaction, verb.on_dead_letters, ids, pilot=self._pilot, time_limit=limit
                )
            else:
                changes = await jobs.apply_tx(
                    transaction,
                    verb,
                    ids,
                    self._operation.given,
                    pilot=self._pilot,
                    time_limit=limit,
                )
            watch = await self._keeper.watch(transaction, changes.changed)
            await self._ledger.save(transaction, changes, reached, watch)
        self._operation.note(changes)
        self._operation.watch = watch
        self._keeper.acted(len(changes.changed) + len(changes.requested))
        if time.monotonic() - started > self._limits.slow_chunk.total_seconds():
            # Only timeouts make it smaller than a hundred.
            enough = min(self._chunk_size, self._limits.smallest_chunk * 10)
            self._chunk_size = max(self._chunk_size // 2, enough)

    async def _reason_to_stop(self) -> str:
        """Return why the jobs that were let run again speak against going on; empty where they do
        not, or where it is not yet time to look.
        """
        if not self._keeper.due:
            return ""
        before = self._operation.watch
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            stop = await self._keeper.look(executor)
        if self._operation.watch != before:
            await self._ledger.watched(self._reached)
        return stop

    async def _search(self) -> None:
        """Find the next jobs to act on, and the place to go on from."""
        if self._operation.verb.on_dead_letters:
            await self._search_dead_letters()
            return
        params = self._params(self._operation.filter, cursor=self._cursor, limit=self._search_size)
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            page = await executor.job_list(params)
        by_time = self._operation.order in (JobOrder.TIME, JobOrder.TIME_DESC)
        self._found = [
            JobCursor(at=row.matters_at if by_time else None, id=row.id) for row in page.rows
        ]
        self._more = page.searched is not None or (page.more and bool(page.rows))
        if page.searched is not None:
            self._cursor = page.searched.resume
        elif page.rows:
            self._cursor = self._found[-1]

    async def _search_dead_letters(self) -> None:
        """Find the next dead letters to act on: they are never worked, and leave by hand alone."""
        place = self._cursor
        end = self._operation.cutoff
        params = replace(
            dead_letter_filter.params(self._operation.filter),
            after=(end.at, end.id) if place is None or place.at is None else (place.at, place.id),
            limit=min(self._search_size, jobs.MAX_IDS),
            window=self._window,
        )
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            page = await DeadLetterStore(executor).dead_job_list(params)
        self._found = [JobCursor(at=row.died_at, id=row.job.id) for row in page.rows]
        self._more = page.searched is not None or page.more
        if page.searched is not None:
            at, last = page.searched
            self._cursor = JobCursor(at=at, id=last)
        elif self._found:
            self._cursor = self._found[-1]

    async def _still_matching(self, ids: Sequence[int]) -> Sequence[int]:
        """Return those that match now: since they were found, some may have been worked."""
        if self._operation.verb.on_dead_letters:
            return ids
        given = self._operation.filter
        found = Term(field=Field.ID, op=Op.EQ, values=tuple(ids))
        these = JobFilter(states=given.states, terms=(found, *given.terms))
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            page = await executor.job_list(self._params(these, cursor=None, limit=len(ids)))
        return [row.id for row in page.rows]

    def _params(self, filter: JobFilter, *, cursor: JobCursor | None, limit: int) -> JobPageParams:
        return JobPageParams(
            cursor=cursor,
            cutoff=self._operation.cutoff,
            filter=filter,
            lean=True,
            limit=limit,
            order=self._operation.order,
            window=self._window,
        )

    def _shrink(self) -> None:
        """Make searches and chunks half as large; raise QueryTimeout where that is in vain."""
        self._timeouts += 1
        if self._timeouts > self._limits.timeouts:
            raise QueryTimeout(
                f"The database did not answer in time, even for {self._chunk_size} jobs."
            )
        smallest = self._limits.smallest_chunk
        self._search_size = max(smallest, self._search_size // 2)
        self._chunk_size = max(smallest, self._chunk_size // 2)
        self._window = max(self._limits.smallest_window, self._window // 2)

    async def _wait_for_database(self) -> None:
        """Wait a little, and longer each time; raise DatabaseUnavailable where it took too long."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        away = now - self._away_since
        if away > self._limits.database_away.total_seconds():
            raise DatabaseUnavailable("The database could not be reached for a minute.")
        await asyncio.sleep(min(5.0, 0.25 + away))
