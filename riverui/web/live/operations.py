"""Runs verbs on all jobs that match: in this process, chunk by chunk, whether or not a browser
looks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from riverui.actions import jobs
from riverui.actions.pilot import PLAIN, JobPilot
from riverui.actions.verbs import NOTHING, Given, JobVerb
from riverui.errors import BadRequest, DatabaseUnavailable, QueryTimeout, RiveruiError
from riverui.storage.interface import Driver
from riverui.storage.interface.job_actions import JobChanges, SkipReason
from riverui.storage.interface.params import (
    Count,
    CountKind,
    Field,
    JobCursor,
    JobCutoff,
    JobFilter,
    JobListParams,
    JobOrder,
    Op,
    Term,
)
from riverui.web.config import DashboardConfig

log = logging.getLogger("riverui.operations")

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


class Status(StrEnum):
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
    status: Status = Status.RUNNING
    changed: int = 0
    requested: int = 0
    skipped: dict[SkipReason, int] = field(default_factory=dict)
    skipped_samples: dict[SkipReason, tuple[int, ...]] = field(default_factory=dict)
    error: str = ""
    task: asyncio.Task[None] | None = None

    @property
    def title(self) -> str:
        """Return the verb for the log, with what it was given."""
        return f"{self.verb.name} ({self.verb.words(self.given)})" if self.given else self.verb.name

    @property
    def ended(self) -> bool:
        """Return whether nothing more will happen."""
        return self.ended_at is not None

    @property
    def seen(self) -> int:
        """Return how many jobs were dealt with so far, skipped ones included."""
        return self.changed + self.requested + sum(self.skipped.values())

    def note(self, changes: JobChanges) -> None:
        """Add what one chunk did."""
        self.changed += len(changes.changed)
        self.requested += len(changes.requested)
        for job_id, reason in changes.skipped:
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
            samples = self.skipped_samples.get(reason, ())
            if len(samples) < SAMPLES:
                self.skipped_samples[reason] = (*samples, job_id)


class Operations:
    """The operations of one dashboard. They live as long as the process and need no lifespan."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        *,
        limits: OperationLimits | None = None,
        pilot: JobPilot = PLAIN,
    ) -> None:
        self._driver = driver
        self._config = config
        self._pilot = pilot
        self._limits = limits or OperationLimits()
        self._operations: dict[str, Operation] = {}

    def list(self) -> Sequence[Operation]:
        """Return every remembered operation, newest first."""
        return tuple(reversed(self._operations.values()))

    def get(self, id: str) -> Operation | None:
        """Return the operation; None where it is unknown or forgotten."""
        return self._operations.get(id)

    def start(
        self,
        verb: JobVerb,
        filter: JobFilter,
        *,
        given: Given = NOTHING,
        cutoff: JobCutoff,
        filter_text: str,
        id: str,
        order: JobOrder,
        total: Count | None = None,
        user: str = "",
    ) -> Operation:
        """Start to do a verb to every job that matches, and return the operation.

        Where there is one of that id already, nothing is started and it is returned. `given` is
        what the verb takes besides the jobs. BadRequest when enough operations are running.
        """
        if known := self._operations.get(id):
            return known
        if (
            sum(not operation.ended for operation in self._operations.values())
            >= self._limits.running
        ):
            raise BadRequest(
                f"{self._limits.running} actions on all matching jobs are already running: wait for"
                " one, or stop one."
            )
        operation = Operation(
            id=id,
            verb=verb,
            filter=filter,
            given=given,
            filter_text=filter_text,
            order=order,
            cutoff=cutoff,
            user=user,
            total=total or Count(value=0, kind=CountKind.AT_LEAST),
            started_at=datetime.now(UTC),
        )
        self._operations[operation.id] = operation
        self._forget()
        operation.task = asyncio.create_task(self._run(operation))
        log.info(
            "%s started by %r: %r",
            operation.title,
            user,
            filter_text,
            extra={"operation": operation.id},
        )
        return operation

    def stop(self, operation: Operation, *, user: str = "") -> None:
        """Ask it to stop after the chunk at hand; do nothing where it has ended."""
        if operation.status is Status.RUNNING:
            operation.status = Status.STOPPING
            log.info(
                "%s stopped by %r", operation.verb.name, user, extra={"operation": operation.id}
            )

    async def close(self) -> None:
        """End them all; the chunks at hand are given up."""
        tasks = {operation.task for operation in self._operations.values() if operation.task}
        while tasks:
            for task in tasks:
                task.cancel()
            # A pool that hands out a connection at this very moment forgets that its client was
            # cancelled.
            _, tasks = await asyncio.wait(tasks, timeout=0.5)

    def _forget(self) -> None:
        ended = [operation.id for operation in self._operations.values() if operation.ended]
        for operation_id in ended[: max(0, len(ended) - self._limits.remembered)]:
            del self._operations[operation_id]

    async def _run(self, operation: Operation) -> None:
        status = Status.FAILED
        try:
            status = await _OperationRun(
                self._driver, self._config, operation, self._limits, self._pilot
            ).run()
        except asyncio.CancelledError:
            operation.error = "The dashboard was shut down."
            raise
        except RiveruiError as error:
            operation.error = error.public
            log.warning(
                "%s stopped: %s", operation.verb.name, error, extra={"operation": operation.id}
            )
        except Exception:
            operation.error = "Something went wrong; see the server's log."
            log.exception("%s failed", operation.verb.name, extra={"operation": operation.id})
        finally:
            operation.status = status
            operation.ended_at = datetime.now(UTC)
            operation.task = None
            skipped = {reason.value: number for reason, number in operation.skipped.items()}
            log.info(
                "%s %s: %d changed, %d requested, skipped %s, asked by %r for %r%s",
                operation.title,
                status.value,
                operation.changed,
                operation.requested,
                skipped,
                operation.user,
                operation.filter_text,
                f": {operation.error}" if operation.error else "",
                extra={"operation": operation.id},
            )


class _OperationRun:
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
    ) -> None:
        self._driver = driver
        self._pilot = pilot
        self._config = config
        self._operation = operation
        self._limits = limits
        self._search_size = limits.found
        """Jobs that the next search finds at most."""
        self._chunk_size = jobs.MAX_IDS
        """Jobs that are acted on in one transaction."""
        self._window = config.search_window
        """Jobs that the next search without an index looks at."""
        self._cursor: JobCursor | None = None
        """Where the next search begins; None at the first."""
        self._found: list[int] = []
        """Ids of jobs to act on before that."""
        self._more = True
        """Whether a search may find more."""
        self._timeouts = 0
        self._away_since: float | None = None

    async def run(self) -> Status:
        """Act on chunks until the last job, or until it is asked to stop; return which.

        Raises QueryTimeout and DatabaseUnavailable where smaller chunks and waiting did not help.
        """
        more, pause = True, self._limits.pause.total_seconds()
        while more:
            if self._operation.status is Status.STOPPING:
                return Status.STOPPED
            started = time.monotonic()
            try:
                more = await self._step()
            except QueryTimeout:
                self._shrink()
                await asyncio.sleep(pause * 10)
            except DatabaseUnavailable:
                await self._wait_for_database()
            else:
                self._timeouts, self._away_since = 0, None
                # The slower the database, the longer the others' turn.
                await asyncio.sleep(pause + (time.monotonic() - started) / 4)
        return Status.DONE

    async def _step(self) -> bool:
        """Act on one chunk; return whether more may follow.

        Ids are let go only once they were acted on: a step that fails is done again.
        """
        fresh = not self._found
        if fresh:
            await self._search()
        chunk = self._found[: self._chunk_size]
        if ids := chunk if fresh else await self._still_matching(chunk):
            started = time.monotonic()
            changes = await jobs.apply(
                self._driver,
                self._operation.verb,
                ids,
                self._operation.given,
                pilot=self._pilot,
                time_limit=self._config.action_timeout,
            )
            self._operation.note(changes)
            if time.monotonic() - started > self._limits.slow_chunk.total_seconds():
                # Only timeouts make it smaller than a hundred.
                enough = min(self._chunk_size, self._limits.smallest_chunk * 10)
                self._chunk_size = max(self._chunk_size // 2, enough)
        del self._found[: len(chunk)]
        return bool(self._found) or self._more

    async def _search(self) -> None:
        """Find the next jobs to act on, and the place to go on from."""
        operation = self._operation
        params = self._params(operation.filter, cursor=self._cursor, limit=self._search_size)
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            page = await executor.job_list(params)
        self._found = [row.id for row in page.rows]
        self._more = page.searched is not None or (page.more and bool(page.rows))
        if page.searched is not None:
            self._cursor = page.searched.resume
        elif page.rows:
            last = page.rows[-1]
            by_time = operation.order in (JobOrder.TIME, JobOrder.TIME_DESC)
            self._cursor = JobCursor(at=last.matters_at if by_time else None, id=last.id)

    async def _still_matching(self, ids: Sequence[int]) -> Sequence[int]:
        """Return those that match now: since they were found, some may have been worked."""
        given = self._operation.filter
        found = Term(field=Field.ID, op=Op.EQ, values=tuple(ids))
        these = JobFilter(states=given.states, terms=(found, *given.terms))
        async with self._driver.reading(timeout=self._config.action_timeout) as executor:
            page = await executor.job_list(self._params(these, cursor=None, limit=len(ids)))
        return [row.id for row in page.rows]

    def _params(self, filter: JobFilter, *, cursor: JobCursor | None, limit: int) -> JobListParams:
        return JobListParams(
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
