"""A client's insert methods, and their pipeline: middleware, hooks, rows, one transaction, at most
one notification per queue.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence, Sized
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Unpack

from riverui.engine.args.job_args import JobArgs, plugins_of
from riverui.engine.hooks import Extensions, Middleware, settle
from riverui.engine.insert.insert_opts import (
    InsertKeywords,
    InsertManyParams,
    InsertOpts,
    InsertRequest,
    params_types,
)
from riverui.engine.insert.job_builder import JobBuilder, NotifyLimiter, available_queues
from riverui.engine.limits import EngineLimits
from riverui.engine.pilot import InsertBatch, Pilot, plain_insert_many
from riverui.errors import InsertError
from riverui.storage.interface import SQL, Driver, Executor
from riverui.storage.interface.engine_params import InsertResult, JobInsertParams
from riverui.storage.stores.server import ServerStore

if TYPE_CHECKING:
    from riverui.engine.config import ClientConfig

Send = Callable[[InsertBatch, Sequence[str]], Awaitable[Sequence[InsertResult]]]
"""Inserts a batch and returns one result for each job, or none for a COPY; the queues are those
that get an available job, whether they are notified or not.
"""

_Insert = Callable[[Sequence[InsertRequest]], Awaitable[Sequence[InsertResult]]]
_Outer = Callable[[Sequence[InsertRequest], _Insert], Awaitable[Sequence[InsertResult]]]


class InsertPipeline:
    """Runs middleware and hooks around an insert, builds its rows and passes them to a `send`.

    It awaits nothing else, so that SyncClient can run it without an event loop.
    """

    def __init__(self, builder: JobBuilder, extensions: Extensions) -> None:
        self.builder = builder
        self._extensions = extensions

    async def insert(self, jobs: Iterable[object], send: Send) -> Sequence[InsertResult]:
        """Insert args and InsertManyParams, all or none; return one result for each, in order.

        ArgsError, InsertError or UnknownJobKind for an invalid job.
        """
        jobs = list(jobs)
        if not jobs:
            return []
        if not self._watched(jobs):
            return await self._send(self.builder.rows(jobs), send)
        prepare, params = self.builder.prepare, params_types()
        requests = [
            prepare(job.args, job.insert_opts) if isinstance(job, params) else prepare(job)
            for job in jobs
        ]
        return await self.insert_requests(requests, send)

    async def insert_requests(
        self, requests: Sequence[InsertRequest], send: Send
    ) -> Sequence[InsertResult]:
        """Insert requests made earlier: run middleware around all of them, then hooks for each."""

        async def insert(requests: Sequence[InsertRequest]) -> Sequence[InsertResult]:
            for request in requests:
                for hook in (
                    *self._extensions.insert_begin,
                    *self._extensions_for(request).insert_begin,
                ):
                    await settle(hook.insert_begin(request))
            return await self._send(list(map(self.builder.finish, requests)), send)

        wrapped: _Insert = insert
        for middleware in reversed(self._middleware(requests)):
            wrapped = _around(middleware.insert_many, wrapped)
        return await wrapped(requests)

    async def _send(self, rows: Sequence[JobInsertParams], send: Send) -> Sequence[InsertResult]:
        if not rows:
            return []
        limiter, queues = self.builder.limiter, available_queues(rows)
        notify = [queue for queue in queues if limiter.allow(queue)]
        try:
            return await send(InsertBatch(rows, notify), queues)
        except BaseException:
            limiter.take_back(notify)
            raise

    def _watched(self, jobs: Sequence[object]) -> bool:
        """Return whether any hook or middleware applies to these jobs."""
        if self._extensions.insert_begin or self._extensions.insert_many:
            return True
        params = params_types()
        types = {type(job.args if isinstance(job, params) else job) for job in jobs}
        return any(plugins_of(cls) for cls in types)

    def _extensions_for(self, request: InsertRequest) -> Extensions:
        return (
            Extensions.collect_from_args(type(request.args))
            if plugins_of(type(request.args))
            else _NO_EXTENSIONS
        )

    def _middleware(self, requests: Sequence[InsertRequest]) -> list[Middleware]:
        """Return the client's middleware, then that of each kind's args; outermost first."""
        of_kinds = {request.kind: self._extensions_for(request).insert_many for request in requests}
        return [*self._extensions.insert_many, *chain.from_iterable(of_kinds.values())]


_NO_EXTENSIONS = Extensions()


def _around(outer: _Outer, inner: _Insert) -> _Insert:
    return lambda requests: outer(requests, inner)


def only(results: Sequence[InsertResult]) -> InsertResult:
    """Return the only result; InsertError if middleware returned more or none."""
    if len(results) != 1:
        raise InsertError(f"a middleware returned {len(results)} results for one job")
    return results[0]


class InsertMethods:
    """The methods of a Client that insert jobs.

    Those with `_tx` work in a transaction of the caller's, who commits it: a psycopg
    AsyncConnection, or a SQLAlchemy AsyncSession or AsyncConnection. The others use a transaction
    of their own. Jobs are args, or InsertManyParams for args with options; a batch is inserted
    completely or not at all. ArgsError, InsertError or UnknownJobKind is raised for an invalid job.
    """

    clock: Callable[[], datetime]
    config: ClientConfig
    driver: Driver
    extensions: Extensions
    pilot: Pilot
    _limits: EngineLimits

    def _init_insert_methods(self) -> None:
        self.notify_limiter = NotifyLimiter(self.config.fetch_cooldown)
        self.enforce_unique(True)

    def enforce_unique(self, enforce: bool) -> None:
        """Enforce the uniqueness of jobs, or ignore it, for tests that work equal jobs at the same
        time.
        """
        builder = JobBuilder(self.config, self.clock, self.notify_limiter, enforce_unique=enforce)
        self._pipeline = InsertPipeline(builder, self.extensions)

    async def insert(
        self,
        args: JobArgs,
        insert_opts: InsertOpts | None = None,
        **keywords: Unpack[InsertKeywords],
    ) -> InsertResult:
        """Insert a job, or return the existing one if it is a duplicate of a unique job.

        Options are InsertOpts or keywords, such as `queue="mail"`; keywords override InsertOpts.
        """
        return only(await self.insert_many([InsertManyParams(args, insert_opts, **keywords)]))

    async def insert_tx(
        self,
        tx: object,
        args: JobArgs,
        insert_opts: InsertOpts | None = None,
        **keywords: Unpack[InsertKeywords],
    ) -> InsertResult:
        """Insert a job in a transaction of the caller's; options are as in `insert`."""
        return only(
            await self.insert_many_tx(tx, [InsertManyParams(args, insert_opts, **keywords)])
        )

    async def insert_many(
        self, jobs: Iterable[JobArgs | InsertManyParams]
    ) -> Sequence[InsertResult]:
        """Insert jobs and return one result for each, in order; duplicates are marked as such."""
        return await self._pipeline.insert(jobs, self._send)

    async def insert_many_tx(
        self, tx: object, jobs: Iterable[JobArgs | InsertManyParams]
    ) -> Sequence[InsertResult]:
        """Insert jobs in a transaction of the caller's; see insert_many."""
        return await self._pipeline.insert(jobs, self._sending(await self.driver.adopt(tx)))

    async def insert_many_fast(self, jobs: Iterable[JobArgs | InsertManyParams]) -> int:
        """Insert jobs by COPY and return only their number; raise UniqueConflict if a unique job
        exists.
        """
        return await self._copy(jobs, self._send)

    async def insert_many_fast_tx(
        self, tx: object, jobs: Iterable[JobArgs | InsertManyParams]
    ) -> int:
        """Insert jobs by COPY in a transaction of the caller's, on psycopg; see
        insert_many_fast.
        """
        return await self._copy(jobs, self._sending(await self.driver.adopt(tx)))

    def prepare_insert(self, args: object, insert_opts: InsertOpts | None = None) -> InsertRequest:
        """Return a job for `insert_requests` with all options resolved and validated."""
        return self._pipeline.builder.prepare(args, insert_opts)

    async def insert_requests(
        self,
        requests: Sequence[InsertRequest],
        *,
        numbered: Callable[[int], None] | None = None,
        beside: Callable[[Executor], Awaitable[None]] | None = None,
    ) -> Sequence[InsertResult]:
        """Insert requests from `prepare_insert`, like insert_many.

        `numbered` is called with the number of the transaction before the commit: if the result is
        lost, the transaction's status can be read (TRANSACTION_STATUS, if the database supports
        it). `beside` runs in that transaction too.
        """
        if numbered is None:
            return await self._pipeline.insert_requests(requests, self._send)
        woken: list[tuple[Sequence[str], Sequence[str]]] = []
        async with self.driver.transaction(timeout=_timeout_for(requests)) as executor:
            insert = self._sending(executor)

            async def send(batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
                woken.append((queues, batch.notify))
                return await insert(batch, queues)

            results = await self._pipeline.insert_requests(requests, send)
            if beside is not None:
                await beside(executor)
            if SQL in executor.capabilities:
                numbered(await ServerStore(executor).transaction_id())
        for queues, notified in woken:
            self._wake_all(queues, notified=notified)
        return results

    async def notify_inserts(self, executor: Executor, queues: Iterable[str]) -> None:
        """Notify the workers of those queues when the executor's transaction commits, each queue at
        most once per `fetch_cooldown`.
        """
        if allowed := [
            queue for queue in dict.fromkeys(queues) if self.notify_limiter.allow(queue)
        ]:
            await executor.notify_many(
                "river_insert", [json.dumps({"queue": queue}) for queue in allowed]
            )

    async def _copy(self, jobs: Iterable[JobArgs | InsertManyParams], send: Send) -> int:
        """COPY jobs and return their number."""
        copied = 0

        async def copy(batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
            nonlocal copied
            await send(batch._replace(fast=True), queues)
            copied += len(batch.jobs)
            return []

        await self._pipeline.insert(jobs, copy)
        return copied

    async def _send(self, batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
        """Insert a batch in a transaction of its own, and wake the client's own workers."""
        # Usually it is one statement, which is its own transaction; a COPY cannot notify.
        plain = not self.pilot.wants_insert(batch.jobs)
        alone = plain and self._fits(batch, plain) and not (batch.fast and batch.notify)
        opened = self.driver.autocommit if alone else self.driver.transaction
        async with opened(timeout=_timeout_for(batch.jobs)) as executor:
            inserted = await self._insert_through(executor, batch, plain)
        self._wake_all(queues, notified=batch.notify)
        return inserted

    def _sending(self, executor: Executor) -> Send:
        """Return a `send` that inserts with an executor."""

        async def send(batch: InsertBatch, queues: Sequence[str]) -> Sequence[InsertResult]:
            plain = not self.pilot.wants_insert(batch.jobs)
            return await self._insert_through(executor, batch, plain)

        return send

    async def _insert_through(
        self, executor: Executor, batch: InsertBatch, plain: bool
    ) -> Sequence[InsertResult]:
        """Insert a batch in as many steps as needed; `plain` is without features."""
        insert = plain_insert_many if plain else self.pilot.insert_many
        if self._fits(batch, plain):
            return await insert(executor, batch)
        inserted: list[InsertResult] = []
        for part in batch.parts(self._limits.insert_rows):
            inserted += await insert(executor, part)
        return inserted

    def _fits(self, batch: InsertBatch, plain: bool) -> bool:
        """Return whether a batch is inserted in one step: a COPY is, unless features take part."""
        if batch.fast and plain:
            return True
        return len(batch.jobs) <= self._limits.insert_rows

    def _wake_all(self, queues: Sequence[str], *, notified: Sequence[str]) -> None:
        for queue in queues:
            self._wake(queue, notified=queue in notified)

    def _wake(self, queue: str, *, notified: bool) -> None:
        """Wake the producer of that queue, if this client has one and no notification wakes it."""


def _timeout_for(rows: Sized) -> timedelta:
    """Return the time limit of an insert: 10 s, which a busy server may need for any, and 1 s per
    1,000 rows.
    """
    return timedelta(seconds=10 + len(rows) / 1000)
