"""Two schemas with the same jobs, one in the hands of Go River's own code and one in those of ours.

Every step does the same to both and then compares what both answered and left behind. Time is the
test's: it tells both what time it is, and what they take from the database's clock instead shows as
`real`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from msgspec.structs import replace
from psycopg.rows import DictRow, dict_row

from riverui.domain.jobs import JobState
from riverui.engine.client import Client
from riverui.engine.config import ClientConfig
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts, UniqueOpts
from riverui.errors import UniqueConflict
from riverui.storage.interface.engine_params import (
    JobDeleteBeforeParams,
    JobFetchParams,
    JobRescueParams,
    JobSelectParams,
    JobSetStateParams,
)
from riverui.storage.interface.job_actions import SkipReason
from riverui.storage.migrations import migrate
from riverui.storage.postgres.driver import PostgresDriver
from tests.drivers import connect
from tests.interop.script import Script, Scripts
from tests.interop.worker import Peer, PeerError, go_worker

Row: TypeAlias = dict[str, Any]

CLIENT = "twin"
GO, OURS = "twin_go", "twin_ours"
_REAL = timedelta(hours=12)
"""Times this near to the clock on the wall come from the database; a test's own are years away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """A job to insert, with River's options; `due_in` is seconds from now."""

    kind: str = "alpha"
    args: str = "{}"
    queue: str = "default"
    priority: int = 1
    max_attempts: int = 25
    metadata: str = "{}"
    pending: bool = False
    due_in: float | None = None
    tags: tuple[str, ...] = ()
    unique: UniqueOpts | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How an attempt ends, as the completer is told; spans are seconds from now."""

    state: JobState
    attempt: int | None = None
    error: str | None = None
    due_in: float | None = None
    finalized: bool = False
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class RawArgs:
    """Any kind with any args, by the official client's protocol."""

    kind: str
    text: str

    def to_json(self) -> str:
        """Return the args."""
        return self.text


@dataclass(slots=True)
class Clock:
    """What time it is."""

    now: datetime = datetime(2041, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@dataclass(repr=False)
class Twin:
    """Both sides, and how to set them to work."""

    go: Peer
    client: Client
    driver: PostgresDriver
    scripts: Scripts
    connection: psycopg.AsyncConnection[DictRow]
    clock: Clock
    jobs: list[tuple[int, int]] = field(default_factory=list)
    """Go's and our id of every job, in the order of insertion; a test names a job by its place
    here.
    """

    @property
    def now(self) -> datetime:
        """What time it is on both sides."""
        return self.clock.now

    async def begin(self, now: datetime) -> None:
        """Empty both sides."""
        self.clock.now = now
        self.jobs.clear()
        for schema in (GO, OURS):
            for table in ("river_job", "river_queue", "river_leader"):
                await self.connection.execute(f"delete from {schema}.{table}")

    async def insert(self, jobs: Sequence[NewJob], *, fast: bool = False) -> None:
        """Insert jobs by both clients. Go's statement cannot take equal keys: it gets unique jobs
        singly.
        """
        told = [_go_job(job, self.now) for job in jobs]
        unique = any(job.unique for job in jobs)
        params = [
            InsertManyParams(args=RawArgs(job.kind, job.args), insert_opts=_our_opts(job, self.now))
            for job in jobs
        ]
        if fast and not unique:
            before = await self._ids()
            count = (
                await self.go.ask("insert_many", jobs=told, fast=True, now=go_time(self.now))
            ).count
            assert count == await self.client.insert_many_fast(params) == len(jobs)
            after = await self._ids()
            theirs_new, ours_new = (
                sorted(set(these) - set(those)) for these, those in zip(after, before, strict=True)
            )
            self.jobs += zip(theirs_new, ours_new, strict=True)
            return
        theirs: list[Any] = []
        for part in [[job] for job in told] if unique else [told]:
            theirs += (await self.go.ask("insert_many", jobs=part, now=go_time(self.now))).result
        ours = await self.client.insert_many(params)
        for their, our in zip(theirs, ours, strict=True):
            assert their["duplicate"] == our.unique_skipped_as_duplicate, (their, our)
            pair = (their["id"], our.job.id)
            if their["duplicate"]:
                assert pair in self.jobs, "each is told of the same twin"
            else:
                self.jobs.append(pair)

    async def fetch(
        self, queue: str, limit: int, *, kinds: Sequence[str] | None = None, client_id: str = CLIENT
    ) -> None:
        """Take available jobs."""
        fetched = await self.go.driver(
            "JobGetAvailable",
            ClientID=client_id,
            Kind=kinds,
            MaxAttemptedBy=3,
            MaxToLock=limit,
            Now=go_time(self.now),
            Queue=queue,
        )
        async with self.driver.autocommit() as executor:
            rows = await executor.work.get_available(
                JobFetchParams(
                    client_id=client_id,
                    queue=queue,
                    limit=limit,
                    now=self.now,
                    kinds=None if kinds is None else tuple(kinds),
                    max_attempted_by=3,
                )
            )
        self._same_jobs(
            [job["ID"] for job in fetched["Jobs"]], [row.id for row in rows], ordered=False
        )

    async def execute(self, job: int, script: Script) -> None:
        """Work a running job through both executors."""
        go_id, our_id = self.jobs[job]
        answer = await self.go.ask(
            "execute", id=go_id, script=script.for_go(self.now), now=go_time(self.now)
        )
        assert answer.message == await self.scripts.execute(our_id, script)

    async def set_state(self, endings: Sequence[tuple[int, Ending]]) -> None:
        """Do what the completer does, running jobs or not."""
        ids = [self.jobs[job] for job, _ in endings]
        rows = await self.go.driver(
            "JobSetStateIfRunningMany",
            ID=[go_id for go_id, _ in ids],
            Attempt=[ending.attempt for _, ending in endings],
            ErrData=[_base64(ending.error) for _, ending in endings],
            FinalizedAt=[go_time(self.now) if ending.finalized else None for _, ending in endings],
            MetadataDoMerge=[ending.metadata is not None for _, ending in endings],
            MetadataUpdates=[_base64(ending.metadata) for _, ending in endings],
            ScheduledAt=[go_time(self.at(ending.due_in)) for _, ending in endings],
            State=[ending.state for _, ending in endings],
        )
        async with self.driver.autocommit() as executor:
            ours = await executor.work.set_state_many(
                [
                    JobSetStateParams(
                        id=our_id,
                        state=ending.state,
                        finalized_at=self.now if ending.finalized else None,
                        attempt=ending.attempt,
                        error=ending.error,
                        scheduled_at=self.at(ending.due_in),
                        metadata=ending.metadata,
                    )
                    for (_, our_id), (_, ending) in zip(ids, endings, strict=True)
                ]
            )
        self._same_jobs([row["ID"] for row in rows], [row.id for row in ours], ordered=False)

    async def complete(self, jobs: Sequence[int]) -> None:
        """End several jobs at once, plainly."""
        ids = [self.jobs[job] for job in jobs]
        nothing = [None] * len(ids)
        await self.go.driver(
            "JobSetStateIfRunningMany",
            ID=[go_id for go_id, _ in ids],
            Attempt=nothing,
            ErrData=nothing,
            FinalizedAt=[go_time(self.now)] * len(ids),
            MetadataDoMerge=[False] * len(ids),
            MetadataUpdates=nothing,
            ScheduledAt=nothing,
            State=["completed"] * len(ids),
        )
        async with self.driver.autocommit() as executor:
            await executor.work.complete_many([our_id for _, our_id in ids], [self.now] * len(ids))

    async def cancel(self, job: int) -> None:
        """Do River's JobCancel."""
        go_id, our_id = self.jobs[job]
        await self.go.ask("cancel", id=go_id, now="real")
        async with self.driver.transaction() as transaction:
            changes = await transaction.jobs.cancel_many([our_id])
        assert not changes.skipped or changes.skipped[0][1] is SkipReason.FINALIZED

    async def retry(self, job: int) -> None:
        """Do River's JobRetry; where a unique twin is active both refuse."""
        go_id, our_id = self.jobs[job]
        refused = ""
        try:
            await self.go.ask("retry", id=go_id, now="real")
        except PeerError as error:
            refused = str(error)
        assert not refused or "23505" in refused
        try:
            async with self.driver.transaction() as transaction:
                await transaction.jobs.retry_many([our_id])
        except UniqueConflict:
            assert refused
        else:
            assert not refused

    async def delete(self, job: int) -> None:
        """Do River's JobDelete; a running job stays."""
        go_id, our_id = self.jobs[job]
        refused = ""
        try:
            await self.go.ask("delete", id=go_id)
        except PeerError as error:
            refused = str(error)
        async with self.driver.transaction() as transaction:
            changes = await transaction.jobs.delete_many([our_id])
        if refused:
            assert "running" in refused
            assert changes.skipped == ((our_id, SkipReason.RUNNING),)
        else:
            assert changes.changed == (our_id,)
            del self.jobs[job]

    async def update(self, job: int, output: str) -> None:
        """Do River's JobUpdate."""
        go_id, our_id = self.jobs[job]
        await self.go.ask("update", id=go_id, value=json.loads(output), now="real")
        async with self.driver.autocommit() as executor:
            assert await executor.jobs.update(our_id, metadata=f'{{"output": {output}}}')

    async def schedule(self, limit: int, *, look_ahead: float = 0) -> None:
        """Run the scheduler's statement."""
        now = self.now + timedelta(seconds=look_ahead)
        scheduled = await self.go.driver("JobSchedule", Max=limit, Now=go_time(now))
        async with self.driver.transaction() as transaction:
            ours = await transaction.work.schedule(now=now, limit=limit)
        for discarded in (False, True):
            self._same_jobs(
                [
                    result["Job"]["ID"]
                    for result in scheduled
                    if result["ConflictDiscarded"] is discarded
                ],
                [result.id for result in ours if result.conflict_discarded is discarded],
                ordered=False,
            )

    async def rescue(self, after: float, limit: int, states: Sequence[JobState]) -> None:
        """Find stuck jobs and end each in one of `states`, in turns."""
        horizon = self.now - timedelta(seconds=after)
        stuck = await self.go.driver(
            "JobGetStuck", AfterID=0, Max=limit, StuckHorizon=go_time(horizon)
        )
        async with self.driver.autocommit() as executor:
            rows = await executor.work.get_stuck(attempted_before=horizon, after_id=0, limit=limit)
        theirs, ours = [job["ID"] for job in stuck], [row.id for row in rows]
        self._same_jobs(theirs, ours, ordered=True)
        if not ours:
            return
        chosen = [states[n % len(states)] for n in range(len(ours))]
        errors = [
            json.dumps(
                {"at": go_time(self.now), "attempt": row.attempt, "error": "rescued", "trace": ""}
            )
            for row in rows
        ]
        retried = self.now + timedelta(seconds=30)
        due = [
            retried if state == "retryable" else row.scheduled_at
            for state, row in zip(chosen, rows, strict=True)
        ]
        ended = [None if state == "retryable" else self.now for state in chosen]
        await self.go.driver(
            "JobRescueMany",
            ID=theirs,
            Error=[_base64(error) for error in errors],
            FinalizedAt=[go_time(at) for at in ended],
            ScheduledAt=[go_time(at) for at in due],
            State=chosen,
            StuckHorizon=go_time(horizon),
        )
        rescues = [
            JobRescueParams(id=our_id, state=state, error=error, scheduled_at=at, finalized_at=end)
            for our_id, state, error, at, end in zip(ours, chosen, errors, due, ended, strict=True)
        ]
        async with self.driver.autocommit() as executor:
            assert (
                sorted(await executor.work.rescue_many(rescues, attempted_before=horizon)) == ours
            )

    async def clean(
        self, keep: Sequence[float | None], limit: int, excluded: Sequence[str] = ()
    ) -> None:
        """Run the cleaner's rounds: seconds to keep cancelled, completed and discarded jobs, None
        for ever.

        Go takes the lowest ids first and we the longest finished, so that only whole cleanings
        compare.
        """
        before = [
            None if seconds is None else self.now - timedelta(seconds=seconds) for seconds in keep
        ]
        count = limit
        while count == limit:
            count = await self._clean(before, limit, excluded)
        await self._forget()

    async def _clean(
        self, before: Sequence[datetime | None], limit: int, excluded: Sequence[str]
    ) -> int:
        count: int = await self.go.driver(
            "JobDeleteBefore",
            CancelledDoDelete=before[0] is not None,
            CancelledFinalizedAtHorizon=go_time(before[0] or self.now),
            CompletedDoDelete=before[1] is not None,
            CompletedFinalizedAtHorizon=go_time(before[1] or self.now),
            DiscardedDoDelete=before[2] is not None,
            DiscardedFinalizedAtHorizon=go_time(before[2] or self.now),
            Max=limit,
            QueuesExcluded=list(excluded) or None,
        )
        async with self.driver.autocommit() as executor:
            assert count == await executor.work.delete_before(
                JobDeleteBeforeParams(
                    cancelled_before=before[0],
                    completed_before=before[1],
                    discarded_before=before[2],
                    limit=limit,
                    queues_excluded=tuple(excluded),
                )
            )
        return count

    async def delete_many(self, params: JobSelectParams) -> None:
        """Do River's JobDeleteMany; `ids` are places."""
        theirs = [self.jobs[job][0] for job in params.ids]
        deleted = await self.go.ask(
            "delete_many", count=params.limit, filter=_go_filter(params, theirs)
        )
        async with self.driver.autocommit() as executor:
            rows = await executor.jobs.delete_selected(
                _with_ids(params, [self.jobs[job][1] for job in params.ids])
            )
        self._same_jobs(deleted.result, [row.id for row in rows], ordered=True)
        await self._forget()

    async def list_jobs(self, params: JobSelectParams) -> None:
        """Do River's JobList; `ids` are places."""
        listed = await self.go.ask(
            "list",
            count=params.limit,
            desc=params.descending,
            filter=_go_filter(params, [self.jobs[job][0] for job in params.ids]),
            order=params.order,
        )
        async with self.driver.autocommit() as executor:
            rows = await executor.jobs.row_list(
                _with_ids(params, [self.jobs[job][1] for job in params.ids])
            )
        self._same_jobs(listed.result, [row.id for row in rows], ordered=True)

    async def cancel_requested(self) -> None:
        """Compare which of all jobs run and were asked to stop."""
        theirs = await self.go.driver("JobGetCancelRequested", ID=[go_id for go_id, _ in self.jobs])
        async with self.driver.autocommit() as executor:
            ours = await executor.work.cancel_requested([our_id for _, our_id in self.jobs])
        self._same_jobs(theirs or [], ours, ordered=False)

    def at(self, seconds: float | None) -> datetime | None:
        """So many seconds from now."""
        return None if seconds is None else self.now + timedelta(seconds=seconds)

    async def running(self) -> list[int]:
        """Return the places of the jobs that run."""
        cursor = await self.connection.execute(
            f"select id from {OURS}.river_job where state = 'running'"
        )
        found = {row["id"] for row in await cursor.fetchall()}
        return [place for place, (_, our_id) in enumerate(self.jobs) if our_id in found]

    async def check(self) -> None:
        """Check that every column of every job is the same on both sides."""
        theirs, ours = await self._rows(GO, 0), await self._rows(OURS, 1)
        differences = [
            f"job {job} {column}: Go {their.get(column)!r}, we {our.get(column)!r}"
            for job, (their, our) in enumerate(zip(theirs, ours, strict=True))
            for column in their
            if their[column] != our[column]
        ]
        assert not differences, "\n".join(differences)

    async def _ids(self) -> tuple[list[int], list[int]]:
        found = []
        for schema in (GO, OURS):
            cursor = await self.connection.execute(f"select id from {schema}.river_job order by id")
            found.append([row["id"] for row in await cursor.fetchall()])
        return found[0], found[1]

    async def _forget(self) -> None:
        theirs, ours = map(set, await self._ids())
        left = [(go_id, our_id) for go_id, our_id in self.jobs if go_id in theirs]
        assert left == [(go_id, our_id) for go_id, our_id in self.jobs if our_id in ours]
        self.jobs[:] = left

    def _same_jobs(self, theirs: Sequence[int], ours: Sequence[int], *, ordered: bool) -> None:
        places = {go_id: place for place, (go_id, _) in enumerate(self.jobs)}
        our_places = {our_id: place for place, (_, our_id) in enumerate(self.jobs)}
        left, right = [places[job] for job in theirs], [our_places[job] for job in ours]
        if not ordered:
            left.sort()
            right.sort()
        assert left == right, f"Go {left}, we {right}"

    async def _rows(self, schema: str, side: int) -> list[Row]:
        places = {ids[side]: place for place, ids in enumerate(self.jobs)}
        cursor = await self.connection.execute(
            "select *, args::text as args, unique_states::text as unique_states from"
            f" {schema}.river_job"
        )
        real = datetime.now(UTC)
        rows = [_told(row, real) for row in await cursor.fetchall()]
        for row in rows:
            row["id"] = places[row["id"]]
        return sorted(rows, key=lambda row: int(row["id"]))


@asynccontextmanager
async def twin(binary: Path, database_url: str) -> AsyncIterator[Twin]:
    """Yield a twin on this database, both schemas migrated."""
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as connection:
        for schema in (GO, OURS):
            await connection.execute(f"create schema {schema}")
            migrating = connect(database_url, schema=schema)
            await migrate(migrating, "up")
            await migrating.close()
        driver = connect(database_url, schema=OURS)
        async with go_worker(binary, database_url, schema=GO, start=False, quiet=True) as go:
            clock = Clock()
            client = Client(driver, ClientConfig(schema=OURS), clock=clock)
            yield Twin(go, client, driver, Scripts(driver, clock), connection, clock)
        await driver.close()


def told_instants(row: Row) -> Row:
    """Return a row whose times can be compared: those of the test, and `real` for those of the
    database's clock.
    """
    real = datetime.now(UTC)
    return {
        name: _instant(value, real) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _told(row: Row, real: datetime) -> Row:
    """Return a row as both sides must have left it; only our errors have a type and a traceback."""
    told = told_instants(row)
    told["metadata"] = {
        key: (
            _instant(datetime.fromisoformat(value), real) if key == "cancel_attempted_at" else value
        )
        for key, value in row["metadata"].items()
    }
    told["errors"] = row["errors"] and [
        {
            **error,
            "at": _instant(datetime.fromisoformat(error["at"]), real),
            "error": error["error"].removeprefix("RuntimeError: "),
            "trace": type(error["trace"]),
        }
        for error in row["errors"]
    ]
    return told


def _instant(at: datetime, real: datetime) -> str:
    return "real" if abs(at - real) < _REAL else at.astimezone(UTC).isoformat()


def go_time(at: datetime | None) -> str | None:
    """Return a time as Go reads it."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def _base64(text: str | None) -> str | None:
    return None if text is None else base64.b64encode(text.encode()).decode()


def _go_job(job: NewJob, now: datetime) -> Row:
    opts: Row = {
        "max_attempts": job.max_attempts,
        "metadata": json.loads(job.metadata),
        "pending": job.pending,
        "priority": job.priority,
        "queue": job.queue,
        "scheduled_in": 0,
        "tags": list(job.tags),
    }
    if job.due_in is not None:
        opts["scheduled_at"] = go_time(now + timedelta(seconds=job.due_in))
    if job.unique:
        period = job.unique.by_period
        assert not isinstance(period, int)
        opts["unique"] = {
            "by_args": job.unique.by_args,
            "by_period": period.total_seconds() if period else 0,
            "by_queue": job.unique.by_queue,
            "by_state": list(job.unique.by_state or ()),
            "exclude_kind": job.unique.exclude_kind,
        }
    return {"kind": job.kind, "args": json.loads(job.args), "opts": opts}


def _our_opts(job: NewJob, now: datetime) -> InsertOpts:
    return InsertOpts(
        max_attempts=job.max_attempts,
        metadata=json.loads(job.metadata),
        pending=job.pending,
        priority=job.priority,
        queue=job.queue,
        scheduled_at=None if job.due_in is None else now + timedelta(seconds=job.due_in),
        tags=list(job.tags),
        unique_opts=job.unique,
    )


def _go_filter(params: JobSelectParams, ids: Sequence[int]) -> Row:
    return {
        "ids": list(ids),
        "kinds": list(params.kinds),
        "metadata": params.metadata or "",
        "priorities": list(params.priorities),
        "queues": list(params.queues),
        "states": list(params.states),
        "tags_all": list(params.tags_all),
        "tags_any": list(params.tags_any),
    }


def _with_ids(params: JobSelectParams, ids: Sequence[int]) -> JobSelectParams:
    return replace(params, ids=tuple(ids))
