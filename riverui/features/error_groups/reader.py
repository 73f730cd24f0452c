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
    Reopening,
    grouped,
    is_news,
    join_alike,
    remembered_group,
    sighting,
)
from riverui.features.error_groups.failed_jobs import FailedJobStore
from riverui.features.error_groups.store import ErrorGroupStore
from riverui.storage.interface import Driver
from riverui.web.config import DashboardConfig
from riverui.web.http.cancelling import cancel_all
from riverui.web.http.context import Service
from riverui.web.http.own_table import OwnTableWatch

log = logging.getLogger("riverui.errors")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARED_EVERY = timedelta(minutes=10)
"""How far the moment since which errors are new moves before earlier ones are looked for again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorGroupLimits:
    """How much is read of failed jobs, how often, and what is stored."""

    jobs: int = 5_000
    """Newest failed jobs that are read: some 2 MB of this process's memory."""
    batch: int = 250
    """Jobs whose errors are read and grouped at once: some 10 ms of this process's time."""
    completed: int = 5_000
    """Jobs that completed before the moment since which errors are new, and are looked through for
    earlier ones: some 5 ms of the database's time, once per moment.
    """
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

    compared: bool = False
    """Whether errors before the moment since which they are new were looked for."""
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
        self._earlier: dict[str | int, datetime] | None = None
        """When completed jobs had failed, by their `keys`; None if that is unknown."""
        self._before: datetime | None = None
        """The moment before which such jobs are looked for."""
        self._compared: datetime | None = None
        """The moment before which they were looked for last."""
        self._flight: asyncio.Task[None] | None = None
        self._due = float("-inf")
        """When (by the clock) the next read is due."""
        self._expired = 0
        """How often a user has changed what is read."""
        self._written = float("-inf")
        self._forgot = float("-inf")

    async def read(self, *, whole: bool = False, new: datetime | None = None) -> ErrorReading:
        """Return the cached groups, and read them again if that is due. Wait a moment for the read;
        longer if `whole` is set and nothing is cached yet. `new` is since when errors count as new.
        """
        if new is not None:
            self._before = new - (new - _EPOCH) % _COMPARED_EVERY
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
        for group in reading.groups.values():
            if any(part.fingerprint == fingerprint for part in group.parts):
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
                groups = join_alike(grouped(jobs.values(), signatures), self._earlier or {})
                self._reading = _reading(jobs, groups, more=more)
            await asyncio.sleep(0)
        self._jobs, self._signatures = jobs, signatures
        await self._compare()
        parts = grouped(jobs.values(), signatures)
        remembered = await self._table.there(ErrorGroupStore)
        if remembered:
            try:
                parts = await self._with_memory(parts)
            except DatabaseError as error:
                # The table was removed, or this user may not read it: show the jobs without it.
                log.warning("stored error groups could not be read: %s", error)
                self._table.ask_again()
                remembered = False
        self._reading = replace(
            _reading(jobs, join_alike(parts, self._earlier or {}), more=found.more),
            complete=True,
            remembered=remembered,
            compared=self._earlier is not None,
        )

    async def _compare(self) -> None:
        """Look once for errors from before the moment since which they are new: most jobs that
        failed have been retried and are completed.
        """
        before, limits = self._before, self._limits
        if before is None or before == self._compared:
            return
        self._compared = before
        try:
            async with self._driver.reading() as executor:
                store = FailedJobStore(executor)
                ids = await store.recovered_job_list(
                    before, looked_at=limits.completed, limit=limits.batch
                )
                rows = await store.job_error_list(ids, completed=True)
        except DatabaseError as error:
            log.warning("errors of completed jobs could not be read: %s", error)
            return
        signed: dict[tuple[str, str, str], ErrorSignature] = {}
        found: dict[str | int, datetime] = {}
        for row in rows:
            job, _ = _signed(row, signed)
            for key in job.keys:
                found[key] = min(job.at, found.get(key, job.at))
        self._earlier = found

    async def _with_memory(self, parts: Mapping[str, ErrorGroup]) -> dict[str, ErrorGroup]:
        """Return the parts of groups with their stored rows, and store what is new."""
        async with self._driver.reading() as executor:
            rows = await ErrorGroupStore(executor).error_group_list(tuple(parts))
        found = _with_rows(parts, rows)
        now = datetime.now(UTC)
        news = any(part.row is None for part in found.values()) or bool(_ended(found, now))
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
        self, parts: Mapping[str, ErrorGroup], now: datetime
    ) -> dict[str, ErrorGroup]:
        """Store what was read, unless another dashboard is doing so; return the parts of groups as
        they are stored then.
        """
        limits = self._limits
        async with self._driver.transaction() as transaction:
            table = ErrorGroupStore(transaction)
            if not await table.error_group_turn():
                return dict(parts)
            # Another dashboard may have written since.
            found = _with_rows(parts, await table.error_group_list(tuple(parts)))
            news = [part for part in found.values() if is_news(part)][: limits.written]
            ended = _ended(found, now)
            if news:
                seen = [sighting(part) for part in news]
                await table.error_group_see(seen, most=limits.remembered)
            if ended:
                await table.error_group_reopen(ended)
            if self._clock() - self._forgot > limits.forget_seconds:
                self._forgot = self._clock()
                await table.error_group_delete_before(now - limits.keep, limit=limits.forgotten)
            if news or ended:
                found = _with_rows(parts, await table.error_group_list(tuple(parts)))
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
        like=0
        if row.given or not (signature.type or signature.message)
        else hash((signature.type, signature.message, row.kind)),
    )
    return job, signature


def _with_rows(
    parts: Mapping[str, ErrorGroup], rows: Sequence[ErrorGroupRow]
) -> dict[str, ErrorGroup]:
    by_fingerprint = {row.fingerprint: row for row in rows}
    return {
        fingerprint: replace(part, row=by_fingerprint.get(fingerprint))
        for fingerprint, part in parts.items()
    }


def _ended(parts: Mapping[str, ErrorGroup], now: datetime) -> Sequence[Reopening]:
    """Return the stored decisions that no longer hold."""
    return [
        Reopening(part.row.fingerprint, part.row.decided_at, over.regressed_at)
        for group in join_alike(parts, {}).values()
        if (over := group.reopening(now))
        for part in group.parts
        if part.row and part.row.decided_at
    ]


ERROR_GROUPS = Service(
    make=lambda board: ErrorGroups(
        board.reads, board.config, board.limits.get(ErrorGroupLimits), clock=board.clock
    ),
    close=ErrorGroups.close,
)
