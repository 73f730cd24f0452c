"""Carries out one operation, chunk by chunk."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from riverui.actions import jobs
from riverui.actions.pilot import JobPilot
from riverui.errors import (
    BadRequest,
    DatabaseError,
    DatabaseUnavailable,
    OperationLost,
    QueryTimeout,
)
from riverui.features.dead_letters import filter as dead_letter_filter, verbs as dead_letters
from riverui.features.dead_letters.store import DeadLetterStore
from riverui.features.operations.pace import PaceKeeper
from riverui.features.operations.store import (
    TERM,
    Operation,
    OperationsInProcess,
    OperationStatus,
    OperationStore,
    open_store,
)
from riverui.features.operations.verbs import OPERATION_VERBS
from riverui.storage.interface import Driver, Executor, Transaction
from riverui.storage.interface.job_actions import JobChanges
from riverui.storage.interface.params import (
    Field,
    JobCursor,
    JobFilter,
    JobOrder,
    JobPageParams,
    Op,
    Term,
)
from riverui.web.config import DashboardConfig
from riverui.web.search import query

log = logging.getLogger("riverui.operations")


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationLimits:
    """How much operations may use of the database and of this process's memory, and how often
    dashboards look for them. If a dashboard is killed, its operation continues in another one
    within `term` and `look`.
    """

    running: int = 3
    """Maximum operations at the same time: each holds a connection while it acts."""
    remembered: int = 100
    """Ended operations that a process keeps in memory."""
    found: int = 20_000
    """Jobs that one search finds at most. They are acted on chunk by chunk: without an index, a
    search for each chunk would read the same rows again.
    """
    pause: timedelta = timedelta(milliseconds=50)
    """The minimum pause between chunks, which leaves time for workers and autovacuum."""
    slow_chunk: timedelta = timedelta(milliseconds=500)
    """A slower chunk is too large, because its rows stay locked meanwhile."""
    smallest_chunk: int = 10
    """The minimum of jobs per chunk, however slow the database is."""
    smallest_window: int = 1_000
    """The minimum of jobs that a search without an index reads, however slow the database is."""
    timeouts: int = 6
    """Consecutive timeouts after which chunks get smaller; the next one ends the operation."""
    database_away: timedelta = timedelta(minutes=1)
    """How long an operation waits for an unreachable database."""
    outcomes: timedelta = timedelta(seconds=1)
    """Time between two reads of the outcomes, and of whether a user asked to stop."""
    trial: timedelta = timedelta(minutes=15)
    """How long the jobs tried first may take to end."""
    term: timedelta = TERM
    """How long a dashboard holds an operation without renewing its lease."""
    renew: timedelta = timedelta(seconds=2.5)
    """How often the lease is renewed, so that two renewals may fail."""
    look: timedelta = timedelta(seconds=3)
    """How often each dashboard looks for operations that no dashboard holds."""
    look_for_table: timedelta = timedelta(seconds=30)
    """How often a dashboard without the table checks whether it has been created."""
    table_check: timedelta = timedelta(seconds=5)
    """How long the check for riverui's tables is cached."""
    keep: timedelta = timedelta(days=30)
    """How long ended operations stay in the table."""
    forget: timedelta = timedelta(hours=1)
    """How often older ones are deleted."""
    forgotten: int = 500
    """Operations that one statement deletes."""


class OperationRun:
    """Goes once through the matching jobs, from one end to the other, and acts on each chunk.

    It pages by keyset, so a job that still matches afterwards (skipped, or asked to stop) is not
    processed again.
    """

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        operation: Operation,
        *,
        limits: OperationLimits,
        pilot: JobPilot,
        in_process: OperationsInProcess | None,
    ) -> None:
        self.operation = operation
        self.in_process = in_process
        """Where the operation is kept; None for the table."""
        self._driver = driver
        self._pilot = pilot
        self._config = config
        self._limits = limits
        self._verb = OPERATION_VERBS[operation.verb]
        self._filter = JobFilter()
        self._lost = False
        """Whether another dashboard has taken the operation over."""
        self._written = time.monotonic()
        """When the progress was last stored."""
        self._in_doubt = True
        """Whether the stored state may differ from this process's: at the start, and after a
        connection was lost whose transaction may have committed.
        """
        self._search_size = limits.found
        """Maximum number of jobs that the next search finds."""
        self._chunk_size = jobs.MAX_IDS
        """Jobs that are acted on in one transaction."""
        self._window = config.search_window
        """Jobs that the next search without an index reads."""
        self._cursor: JobCursor | None = None
        """Where the next search starts; None for the first."""
        self._found: list[JobCursor] = []
        """The places of found jobs that are still to be acted on."""
        self._more = True
        """Whether a search may find more."""
        self._timeouts = 0
        self._away_since: float | None = None
        self._pace = PaceKeeper(operation, look=limits.outcomes, trial=limits.trial)

    async def run(self) -> OperationStatus:
        """Act on chunks until the last job, or until the operation is asked to stop; return which.

        It stops by itself if too many of the jobs fail again; the operation's error says why. Raise
        BadRequest if the operation cannot be carried out as it was meant, QueryTimeout and
        DatabaseUnavailable if smaller chunks and waiting did not help, and OperationLost.
        """
        self._filter = _checked_filter(self.operation)
        more, pause = True, self._limits.pause.total_seconds()
        while more:
            if self._lost:
                raise OperationLost
            if self.operation.status is OperationStatus.STOPPING:
                return OperationStatus.STOPPED
            started = time.monotonic()
            try:
                if self._in_doubt:
                    await self._resume()
                if reason := await self._reason_to_stop():
                    self.operation.error = reason
                    return OperationStatus.STOPPED
                if self.operation.status is OperationStatus.RUNNING and self._pace.may_act():
                    more = await self._step()
            except QueryTimeout:
                self._shrink()
                await asyncio.sleep(pause * 10)
            except DatabaseUnavailable:
                self._in_doubt = True
                await self._wait_for_database()
            else:
                self._timeouts, self._away_since = 0, None
                # The slower the database, the longer the pause.
                await asyncio.sleep(pause + (time.monotonic() - started) / 4)
                await self._pace.rest()
        return OperationStatus.DONE

    async def renew(self) -> None:
        """Renew the lease repeatedly, also during a long search."""
        while not self._lost:
            await asyncio.sleep(self._limits.renew.total_seconds())
            # While a chunk is acted on, its transaction locks the row, so no other dashboard takes
            # over.
            with suppress(DatabaseError):
                async with self._driver.autocommit() as executor:
                    try:
                        self.note(await self._stored_on(executor).operation_renew(self.operation))
                    except OperationLost:
                        self._lost = True

    def open(
        self, begin: Callable[[], AbstractAsyncContextManager[Executor]]
    ) -> AbstractAsyncContextManager[OperationStore | OperationsInProcess]:
        """Open the store of the operation; see open_store."""
        return open_store(begin, self.in_process, term=self._limits.term)

    def _stored_on(self, executor: Executor) -> OperationStore:
        return OperationStore(executor, term=self._limits.term)

    def note(self, status: OperationStatus) -> None:
        """Record that a user has asked to stop, unless the run has just ended."""
        if status is OperationStatus.STOPPING and self.operation.status is OperationStatus.RUNNING:
            self.operation.status = status

    async def _resume(self) -> None:
        """Continue from the stored position."""
        async with self.open(self._driver.transaction) as store:
            stored = await store.operation_hold(self.operation)
        self.note(stored.status)
        self.operation.take_progress(stored)
        self._cursor, self._found, self._more = stored.cursor, [], True
        self._in_doubt = False

    async def _step(self) -> bool:
        """Act on one chunk; return whether more may follow.

        Jobs are dropped only once they were acted on, so a failed step is repeated.
        """
        fresh = not self._found
        if fresh:
            await self._search()
        chunk = self._found[: self._pace.room(self._chunk_size)]
        ids: Sequence[int] = [place.id for place in chunk]
        reached = self._cursor if len(chunk) == len(self._found) else chunk[-1]
        if ids := ids if fresh else await self._still_matching(ids):
            await self._act(ids, reached)
        else:
            self.operation.cursor = reached
            if time.monotonic() - self._written > self._limits.renew.total_seconds():
                await self._save()
        del self._found[: len(chunk)]
        return bool(self._found) or self._more

    async def _act(self, ids: Sequence[int], reached: JobCursor | None) -> None:
        """Act on these jobs and store the progress, both or neither."""
        started, operation = time.monotonic(), self.operation
        async with self._driver.transaction(timeout=self._config.action_timeout) as transaction:
            store = self.in_process or self._stored_on(transaction)
            self.note((await store.operation_hold(operation)).status)
            changes = await self._change(transaction, ids)
            watch = await self._pace.watch(transaction, changes.changed)
            after = operation.after(changes, cursor=reached, watch=watch)
            await store.operation_save(after)
        operation.take_progress(after)
        self._written = time.monotonic()
        self._pace.acted(len(changes.changed) + len(changes.requested))
        if time.monotonic() - started > self._limits.slow_chunk.total_seconds():
            # Only after timeouts is a chunk smaller than a hundred.
            enough = min(self._chunk_size, self._limits.smallest_chunk * 10)
            self._chunk_size = max(self._chunk_size // 2, enough)

    async def _change(self, transaction: Transaction, ids: Sequence[int]) -> JobChanges:
        verb, limit = self._verb, self._config.action_timeout
        if verb.on_dead_letters:
            return await dead_letters.apply_tx(
                transaction, verb.on_dead_letters, ids, pilot=self._pilot, time_limit=limit
            )
        given = self.operation.parameters
        return await jobs.apply_tx(
            transaction, verb, ids, given, pilot=self._pilot, time_limit=limit
        )

    async def _save(self) -> None:
        async with self.open(self._driver.autocommit) as store:
            self.note(await store.operation_save(self.operation))
        self._written = time.monotonic()

    async def _reason_to_stop(self) -> str:
        """Return why too many of the changed jobs have failed again; empty if they have not, or if
        it is not yet time to look.
        """
        if not self._pace.due:
            return ""
        before = self.operation.watch
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            reason = await self._pace.look(executor)
        if self.operation.watch != before:
            await self._save()
        return reason

    async def _search(self) -> None:
        """Find the next jobs to act on, and the position to continue from."""
        if self._verb.on_dead_letters:
            await self._search_dead_letters()
            return
        params = self._params(self._filter, cursor=self._cursor, limit=self._search_size)
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            page = await executor.jobs.list(params)
        by_time = self.operation.order in (JobOrder.TIME, JobOrder.TIME_DESC)
        self._found = [
            JobCursor(at=row.matters_at if by_time else None, id=row.id) for row in page.rows
        ]
        self._more = page.searched is not None or (page.more and bool(page.rows))
        if page.searched is not None:
            self._cursor = page.searched.resume
        elif page.rows:
            self._cursor = self._found[-1]

    async def _search_dead_letters(self) -> None:
        """Find the next dead letters to act on. They are never worked, so only users remove
        them.
        """
        place = self._cursor
        end = self.operation.cutoff
        params = replace(
            dead_letter_filter.params(self._filter),
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
        """Return those that still match: some may have been worked since they were found."""
        if self._verb.on_dead_letters:
            return ids
        found = Term(field=Field.ID, op=Op.EQ, values=tuple(ids))
        these = replace(self._filter, terms=(found, *self._filter.terms))
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            page = await executor.jobs.list(self._params(these, cursor=None, limit=len(ids)))
        return [row.id for row in page.rows]

    def _params(self, filter: JobFilter, *, cursor: JobCursor | None, limit: int) -> JobPageParams:
        return JobPageParams(
            cursor=cursor,
            cutoff=self.operation.cutoff,
            filter=filter,
            lean=True,
            limit=limit,
            order=self.operation.order,
            window=self._window,
        )

    def _shrink(self) -> None:
        """Halve searches and chunks; raise QueryTimeout if that was tried too often."""
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
        """Wait a little, and longer each time; raise DatabaseUnavailable after too long."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        away = now - self._away_since
        if away > self._limits.database_away.total_seconds():
            raise DatabaseUnavailable("The database could not be reached for a minute.")
        await asyncio.sleep(min(5.0, 0.25 + away))


def filter_of_query(text: str, *, now: datetime) -> JobFilter:
    """Return the filter of an operation's query; an empty one if it cannot be read."""
    search = query.parse_own(text, now=now)
    return JobFilter() if search.errors else search.filter()


def _checked_filter(operation: Operation) -> JobFilter:
    """Return the operation's filter. Raise BadRequest if continuing might do something else than
    was asked for: another version may interpret the row differently, or it may have been edited by
    hand.
    """
    verb, given = OPERATION_VERBS[operation.verb], operation.parameters
    if operation.unread:
        raise BadRequest(f"Its row cannot be read: {', '.join(operation.unread)}.")
    if operation.allowed != verb.right:
        raise BadRequest(
            f"It was started with the right {operation.allowed!r}, which does not allow it."
        )
    matching = filter_of_query(operation.query, now=operation.started_at)
    if query.format(matching) != operation.query:
        raise BadRequest("Its query cannot be read by this version of riverui.")
    if given and verb.read(given) != dict(given):
        raise BadRequest("Its parameters cannot be read by this version of riverui.")
    return matching
