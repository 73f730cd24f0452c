"""Groups the failed jobs of a database by error; one read serves all viewers of a process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from riverui.errors import DatabaseError
from riverui.features.error_groups.domain.fingerprints import ErrorSignature, error_signature
from riverui.features.error_groups.domain.groups import (
    ErrorGroup,
    ErrorGroupRow,
    FailedJob,
    JobErrorRow,
    grouped,
    is_news,
    remembered_group,
    sighting,
)
from riverui.features.error_groups.failed_jobs import FailedJobStore
from riverui.features.error_groups.store import ErrorGroupStore
from riverui.storage.interface import SQL, Driver
from riverui.web.config import DashboardConfig
from riverui.web.http.cancelling import cancel_all
from riverui.web.http.context import Service
from riverui.web.http.own_table import OwnTableWatch

log = logging.getLogger("riverui.errors")


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorGroupLimits:
    """How much is read of failed jobs, how often, and what is stored."""

    jobs: int = 5_000
    """Newest failed jobs that are read: some 2 MB of this process's memory."""
    batch: int = 250
    """Jobs whose errors are read and grouped at once: some 10 ms of this process's time."""
    fresh_seconds: float = 3.0
    """How long a read is reused: somewhat longer than the interval at which pages refresh."""
    rest: float = 20.0
    """The pause after a read, as a multiple of the time it took."""
    wait_seconds: float = 0.1
    """How long a request waits for a new read; after that it gets the cached groups."""
    program_wait_seconds: float = 2.0
    """How long an API request waits for the first read, as it does not refresh by itself."""
    remember_seconds: float = 30.0
    """Time between two writes of what was read."""
    news_seconds: float = 1.0
    """The same if a group is new or has been reopened."""
    remembered: int = 20_000
    """Most rows in the table of groups: some 20 MB. Further groups are not stored."""
    written: int = 1_000
    """Groups that one write stores, those that failed last first."""
    keep: timedelta = timedelta(days=90)
    """How long a group is kept after it was last seen or decided about."""
    forget_seconds: float = 3_600.0
    """Time between two deletions of old groups."""
    forgotten: int = 500
    """Groups that one statement deletes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorReading:
    """The groups at the last read."""

    groups: Mapping[str, ErrorGroup] = field(default_factory=dict)
    """By fingerprint, those that failed last first."""
    looked_at: int = 0
    """Failed jobs that were read."""
    more: bool = False
    """Whether there are older ones besides."""
    at: datetime | None = None
    """When it was read; None if never."""
    complete: bool = False
    """Whether the read is finished; False while it continues."""
    remembered: bool = False
    """Whether the database has the table that stores groups."""
    problem: str = ""
    """Why the last read failed, as a sentence; empty if it did not."""

    since: datetime | None = None
    """All jobs that failed after this time were read; None if all failed jobs were."""
    kinds: Sequence[str] = ()
    """Kinds of the jobs read, commonest first."""
    queues: Sequence[str] = ()


class ErrorGroups:
    """The groups of one database. Reading them never raises a DatabaseError."""

    def __init__(
        self,
        driver: Driver,
        config: DashboardConfig,
        limits: ErrorGroupLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._config = config
        self._limits = limits or ErrorGroupLimits()
        self._clock = clock
        self._table = OwnTableWatch(driver, clock=clock)
        self._jobs: dict[int, FailedJob] = {}
        """The jobs read, by id."""
        self._signatures: dict[str, ErrorSignature] = {}
        self._reading = ErrorReading()
        self._flight: asyncio.Task[None] | None = None
        self._due = float("-inf")
        """When (by the clock) the next read is due."""
        self._expired = 0
        """How often a user has changed what is read."""
        self._written = float("-inf")
        self._forgot = float("-inf")

    @property
    def available(self) -> bool:
        """Return whether the driver can read failed jobs."""
        return SQL in self._driver.capabilities

    async def read(self, *, whole: bool = False) -> ErrorReading:
        """Return the cached groups, and read them again if that is due. Wait a moment for the read;
        longer if `whole` is set and nothing is cached yet.
        """
        if not self.available:
            return ErrorReading(problem=SQL.missing)
        flight = self._flight
        if flight is not None and flight.get_loop() is not asyncio.get_running_loop():
            flight = None
        if (flight is None or flight.done()) and self._clock() >= self._due:
            flight = self._flight = asyncio.create_task(self._read())
        if flight is not None and not flight.done():
            wait = self._limits.wait_seconds
            if whole and not self._reading.complete:
                wait = self._limits.program_wait_seconds
            await asyncio.wait({flight}, timeout=wait)
        return self._reading

    async def find(self, fingerprint: str) -> ErrorGroup | None:
        """Return one group, which may have no jobs any more; None if it is unknown. Raise
        DatabaseError if the stored groups cannot be read.
        """
        reading = await self.read(whole=True)
        if group := reading.groups.get(fingerprint):
            return group
        if not reading.remembered:
            return None
        async with self._driver.reading() as executor:
            rows = await ErrorGroupStore(executor).error_group_list([fingerprint])
        return remembered_group(rows[0]) if rows else None

    def expire(self) -> None:
        """Read again at the next request: a user has changed jobs or decided about a group."""
        self._expired += 1
        self._due = float("-inf")

    async def close(self) -> None:
        """Stop the background task."""
        await cancel_all({self._flight} if self._flight else set())

    async def _read(self) -> None:
        """Read again, and record the error if that fails."""
        started, expired = self._clock(), self._expired
        try:
            await self._look()
        except DatabaseError as error:
            self._reading = replace(self._reading, problem=error.public)
        except Exception:
            log.exception("failed jobs could not be grouped")
            problem = "Something went wrong; see the server's log."
            self._reading = replace(self._reading, problem=problem)
        finally:
            now = self._clock()
            rest = max(self._limits.fresh_seconds, (now - started) * self._limits.rest)
            self._due = now + rest if self._expired == expired else float("-inf")

    async def _look(self) -> None:
        limit = self._limits.jobs
        async with self._driver.reading() as executor:
            found = await FailedJobStore(executor).failed_job_list(limit=limit)
        known = {place.id: self._jobs.get(place.id) for place in found.places}
        jobs = {
            place.id: job
            for place in found.places
            if (job := known[place.id]) is not None and job.attempt == place.attempt
        }
        wanted = [place.id for place in found.places if place.id not in jobs]
        signatures = {job.fingerprint: self._signatures[job.fingerprint] for job in jobs.values()}
        signed: dict[tuple[str, str, str], ErrorSignature] = {}
        first = not self._reading.complete
        newest: dict[str, ErrorSignature] = {}
        for n, start in enumerate(range(0, len(wanted), self._limits.batch), 1):
            batch = wanted[start : start + self._limits.batch]
            async with self._driver.reading() as executor:
                rows = await FailedJobStore(executor).job_error_list(batch)
            for row in sorted(rows, key=lambda row: row.at, reverse=True):
                job, signature = _signed(row, signed)
                jobs[job.id] = job
                newest.setdefault(signature.fingerprint, signature)
            signatures |= newest
            if first and n & (n - 1) == 0:
                # Viewers do not wait for the whole read: they get the first, second, fourth, …
                # batch.
                more = found.more or len(jobs) < len(found.places)
                self._reading = _reading(jobs, grouped(jobs.values(), signatures), more=more)
            await asyncio.sleep(0)
        self._jobs, self._signatures = jobs, signatures
        groups = grouped(jobs.values(), signatures)
        remembered = await self._table.there()
        if remembered:
            try:
                groups = await self._with_memory(groups)
            except DatabaseError as error:
                # The table was removed, or this user may not read it: show the jobs without it.
                log.warning("stored error groups could not be read: %s", error)
                self._table.ask_again()
                remembered = False
        self._reading = replace(
            _reading(jobs, groups, more=found.more), complete=True, remembered=remembered
        )

    async def _with_memory(self, groups: Mapping[str, ErrorGroup]) -> dict[str, ErrorGroup]:
        """Return the groups with their stored rows, and store what is new."""
        async with self._driver.reading() as executor:
            rows = await ErrorGroupStore(executor).error_group_list(tuple(groups))
        found = _joined(groups, rows)
        now = datetime.now(UTC)
        news = any(group.row is None or group.reopening(now) for group in found.values())
        waited, limits = self._clock() - self._written, self._limits
        if self._may_write and (
            waited > limits.remember_seconds or (news and waited > limits.news_seconds)
        ):
            self._written = self._clock()
            try:
                return await self._remember(found, now)
            except DatabaseError as error:
                log.warning("error groups could not be stored: %s", error)
        return found

    @property
    def _may_write(self) -> bool:
        return not (self._driver.read_only or self._config.read_only)

    async def _remember(
        self, groups: Mapping[str, ErrorGroup], now: datetime
    ) -> dict[str, ErrorGroup]:
        """Store what was read, unless another dashboard is doing so; return the groups as they are
        stored then.
        """
        limits = self._limits
        async with self._driver.transaction() as transaction:
            table = ErrorGroupStore(transaction)
            if not await table.error_group_turn():
                return dict(groups)
            # Another dashboard may have written since.
            found = _joined(groups, await table.error_group_list(tuple(groups)))
            news = [group for group in found.values() if is_news(group)][: limits.written]
            ended = [over for group in found.values() if (over := group.reopening(now))]
            if news:
                seen = [sighting(group) for group in news]
                await table.error_group_see(seen, most=limits.remembered)
            if ended:
                await table.error_group_reopen(ended)
            if self._clock() - self._forgot > limits.forget_seconds:
                self._forgot = self._clock()
                await table.error_group_delete_before(now - limits.keep, limit=limits.forgotten)
            if news or ended:
                found = _joined(groups, await table.error_group_list(tuple(groups)))
        return found


def _reading(
    jobs: Mapping[int, FailedJob], groups: Mapping[str, ErrorGroup], *, more: bool
) -> ErrorReading:
    """Return the current state of the read."""
    found = jobs.values()
    return ErrorReading(
        groups=groups,
        looked_at=len(jobs),
        more=more,
        at=datetime.now(UTC),
        since=min((job.at for job in found), default=None) if more else None,
        kinds=[kind for kind, _ in Counter(job.kind for job in found).most_common()],
        queues=[queue for queue, _ in Counter(job.queue for job in found).most_common()],
    )


def _signed(
    row: JobErrorRow, signed: dict[tuple[str, str, str], ErrorSignature]
) -> tuple[FailedJob, ErrorSignature]:
    """Return a job with its signature; equal texts are parsed once."""
    texts = (row.error, row.trace, row.given)
    if (signature := signed.get(texts)) is None:
        signature = signed[texts] = error_signature(*texts)
    job = FailedJob(
        id=row.id,
        state=row.state,
        attempt=row.attempt,
        kind=row.kind,
        queue=row.queue,
        worker=row.worker,
        release=row.release,
        at=row.at,
        fingerprint=signature.fingerprint,
    )
    return job, signature


def _joined(
    groups: Mapping[str, ErrorGroup], rows: Sequence[ErrorGroupRow]
) -> dict[str, ErrorGroup]:
    by_fingerprint = {row.fingerprint: row for row in rows}
    return {
        fingerprint: ErrorGroup(
            signature=group.signature, jobs=group.jobs, row=by_fingerprint.get(fingerprint)
        )
        for fingerprint, group in groups.items()
    }


ERROR_GROUPS = Service(
    make=lambda board: ErrorGroups(
        board.reads, board.config, board.limits.get(ErrorGroupLimits), clock=board.clock
    ),
    close=ErrorGroups.close,
)
