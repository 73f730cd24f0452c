"""Works jobs of a kind together: gathers them, and calls `work_many` once for all.

Each job arrives from its own attempt, after its hooks, middleware and decoding, and waits for its
outcome. The first one opens a batch and keeps its slot; those that join it free theirs. More jobs
are fetched for the batch only, and take no slots. As in River, any job may open a batch: there may
be several at once, in this and other clients.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, cast

from riverui.domain.json import read_object
from riverui.engine.hooks import settle
from riverui.engine.work import attempt as at_work, django_connections
from riverui.engine.work.attempt import Attempt
from riverui.engine.work.cpu_time import CpuTime, in_thread, stepwise
from riverui.engine.work.deadlines import Deadlines
from riverui.engine.work.slot_ledger import SlotLedger
from riverui.engine.work.threads import WorkerThreads
from riverui.engine.work.worker import BatchError, BatchWorker, Job, WorkUnit
from riverui.errors import RiveruiError
from riverui.storage.interface.engine_params import JobsAlike

_ARRIVAL_SECONDS = 1.0
"""How long a due batch waits for jobs that were fetched for it and have not joined yet, as
their middleware may be slow. Later ones open another batch.
"""
_TURNS = 3
"""Turns of the event loop in which a job that was asked to end leaves a batch: one should be
enough.
"""
_WINDOW = 5_000
"""Due jobs of a queue among which those for a batch are searched: some 10 ms of the database's time
each second.
"""


class Batches:
    """The batches of one client."""

    def __init__(
        self,
        begun: Callable[[], Awaitable[None]],
        *,
        deadlines: Deadlines,
        logger: logging.Logger,
        threads: WorkerThreads,
    ) -> None:
        self.begun = begun
        """Waits until the jobs fetched so far have begun."""
        self.deadlines = deadlines
        self.logger = logger
        self.threads = threads
        self._gathering: set[Batch] = set()
        self._open: dict[tuple[object, str, str], Batch] = {}

    async def work(self, unit: WorkUnit, attempt: Attempt, seconds: float) -> None:
        """Work the attempt's job in a batch, and raise its error. `seconds` limits `work_many`; 0
        and less is no limit.
        """
        batch = attempt.batch
        if not (isinstance(batch, Batch) and batch.gathers):
            batch = await self._batch(unit, attempt)
        await batch.work(attempt, seconds)

    def flush_soon(self, slots: object) -> None:
        """Work the batches of a queue as they are: no more jobs will be fetched for them."""
        for batch in tuple(self._gathering):
            if batch.slots is slots:
                batch.flush_soon()

    def closed(self, batch: Batch) -> None:
        """Let no more jobs join a batch."""
        self._gathering.discard(batch)
        if self._open.get(batch.key) is batch:
            del self._open[batch.key]

    async def _batch(self, unit: WorkUnit, attempt: Attempt) -> Batch:
        """Return the batch for a job to join; open one if none has room."""
        assert unit.batch is not None
        by_args = unit.batch.by_args
        key = attempt.slots, unit.kind, _key(attempt.seen.args, by_args)
        while (found := self._open.get(key)) is not None and found.fetching:
            # Its room is known in a moment.
            await found.fetched()
        if found is not None and found.room > 0:
            return found
        batch = Batch(self, unit, attempt.slots, key, _like(attempt, by_args))
        self._open[key] = batch
        self._gathering.add(batch)
        return batch


class Batch:
    """Jobs that are worked together."""

    def __init__(
        self,
        batches: Batches,
        unit: WorkUnit,
        slots: object,
        key: tuple[object, str, str],
        like: JobsAlike | None,
    ) -> None:
        assert unit.batch is not None
        self.key = key
        self.slots = slots
        self._batches = batches
        self._begun = False
        self._coming: set[Attempt] = set()
        """Attempts that were fetched for it and have not joined yet."""
        self._error: BaseException | None = RiveruiError("The batch of this job was not worked.")
        self._fetched = asyncio.Event()
        self._flushing = False
        self._holder: Attempt | None = None
        """The attempt whose slot it uses."""
        self._interrupted: set[Attempt] = set()
        self._like = like
        self._members: dict[int, Attempt] = {}
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready = asyncio.Event()
        self._arriving = False
        """Whether it waits only for jobs that were fetched for it."""
        self.fetching = False
        """Whether a fetch for it is running, so that its room is not known."""
        self._seconds: dict[int, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._unit = unit
        self._settings = unit.batch

    @property
    def gathers(self) -> bool:
        """Whether jobs may still join."""
        return not self._begun and not self._over.done()

    @property
    def room(self) -> int:
        """How many more may join."""
        taken = len(self._members) + len(self._coming)
        return self._settings.max_count - taken if self.gathers else 0

    async def fetched(self) -> None:
        """Wait for the end of the current fetch."""
        await self._fetched.wait()

    @property
    def asked_to_end(self) -> bool:
        """Whether all of its attempts were asked to end."""
        return all(attempt.asked_to_end for attempt in self._members.values())

    def attempt_of(self, job_id: int) -> Attempt | None:
        """Return the attempt at a job of the batch; None for other jobs."""
        return self._members.get(job_id)

    def flush_soon(self) -> None:
        """Work the jobs gathered so far without waiting for more."""
        self._flushing = True
        self._ready.set()

    def lose(self, attempt: Attempt) -> None:
        """Stop waiting for an attempt that is over."""
        self._coming.discard(attempt)
        self._look()

    async def work(self, attempt: Attempt, seconds: float) -> None:
        """Join, wait for the batch, and raise the job's error."""
        self._join(attempt, seconds)
        while not self._over.done():
            try:
                await asyncio.wait([self._over])
            except asyncio.CancelledError:
                if not self._begun:
                    self._leave(attempt)
                    raise
                # The other jobs may continue, and `work_many` cannot leave this one out.
                self._interrupted.add(attempt)
                if self._task is not None and len(self._interrupted) == len(self._members):
                    self._task.cancel()
        error = self._error_for(attempt)
        del self._members[attempt.row.id]
        if not self._members:
            # It refers to this frame.
            self._error = None
        try:
            if error is not None:
                raise error.with_traceback(_first_trace(error))
        finally:
            error = None

    def _error_for(self, attempt: Attempt) -> BaseException | None:
        """Return the error of one job; None on success."""
        error = self._error
        if isinstance(error, BatchError):
            return error.errors.get(attempt.row.id)
        if isinstance(error, asyncio.CancelledError):
            return asyncio.CancelledError()
        return error

    def _join(self, attempt: Attempt, seconds: float) -> None:
        attempt.batch = self
        self._coming.discard(attempt)
        self._members[attempt.row.id] = attempt
        self._seconds[attempt.row.id] = seconds
        if self._holder is None:
            self._hold(attempt)
        elif isinstance(self.slots, SlotLedger):
            self.slots.share_slot(attempt)
        if self._task is None:
            self._task = asyncio.create_task(
                self._run(), name=f"riverui batch of {self._unit.kind} {attempt.row.id}"
            )
        self._look()

    def _leave(self, attempt: Attempt) -> None:
        del self._members[attempt.row.id]
        if self._holder is attempt:
            self._holder = None
            if other := next(iter(self._members.values()), None):
                self._hold(other)
        self._look()

    def _hold(self, attempt: Attempt) -> None:
        self._holder = attempt
        if isinstance(self.slots, SlotLedger):
            self.slots.keep_slot(attempt)

    def _look(self) -> None:
        """Wake the gathering task if there is nothing more to wait for."""
        if not self._members or self.room <= 0 or (self._arriving and not self._coming):
            self._ready.set()

    async def _run(self) -> None:
        try:
            if isinstance(self.slots, SlotLedger):
                try:
                    await self._gather(self.slots)
                except Exception:
                    self._batches.logger.exception(
                        "a batch of %s could not gather more jobs", self._unit.kind
                    )
            for _ in range(_TURNS):
                if not any(attempt.asked_to_end for attempt in self._members.values()):
                    break
                # Let them leave before the work begins.
                await asyncio.sleep(0)
            self._begun = True
            self._batches.closed(self)
            if self._members:
                await self._measure()
            self._error = None
        except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
            self._error = self._checked(error)
        finally:
            self._begun = True
            self._batches.closed(self)
            # The loop may be closed.
            with suppress(RuntimeError):
                if not self._over.done():
                    self._over.set_result(None)

    async def _gather(self, slots: SlotLedger) -> None:
        """Gather jobs until there are enough, or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.max_delay.total_seconds()
        pause = self._settings.poll_interval.total_seconds()
        # Those of the same fetch join first.
        await self._batches.begun()
        await asyncio.sleep(0)
        while self._members:
            if self.room > 0 and self._like is not None:
                await self._fetch(slots, self._like)
            left = until - loop.time()
            if self.room <= 0 or left <= 0 or self._flushing:
                break
            await self._wait(min(pause, left))
        self._arriving = True
        late = max(until, loop.time() + _ARRIVAL_SECONDS)
        while self._coming and (left := late - loop.time()) > 0:
            await self._wait(left)

    async def _fetch(self, slots: SlotLedger, like: JobsAlike) -> None:
        self.fetching = True
        try:
            self._coming.update(await slots.fetch_alike(like, self.room, self))
        finally:
            self.fetching = False
            self._fetched.set()
            self._fetched = asyncio.Event()

    def _checked(self, error: BaseException) -> BaseException:
        """Return the batch's error; another one for a BatchError that names jobs of other
        batches.
        """
        if isinstance(error, BatchError) and (odd := error.errors.keys() - self._members.keys()):
            names = ", ".join(map(str, sorted(odd)[:10]))
            return ValueError(f"The BatchError names jobs that are not in the batch: {names}.")
        return error

    async def _wait(self, seconds: float) -> None:
        """Wait so many seconds, or until there is nothing more to wait for."""
        self._ready.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ready.wait()

    async def _measure(self) -> None:
        """Work the jobs; the measured ones get equal parts of the processor time."""
        cpu, jobs = CpuTime(), len(self._members)
        measured = [each.cpu for each in self._members.values() if each.cpu is not None]
        if not measured:
            await self._work(None)
            return
        try:
            await stepwise(self._work(cpu), cpu)
        finally:
            for each in measured:
                each.nanoseconds += cpu.nanoseconds // jobs

    async def _work(self, cpu: CpuTime | None) -> None:
        """Call `work_many` with all jobs."""
        assert self._holder is not None
        at_work.running.set(self._holder)
        at_work.batch.set(self)
        for job_id, attempt in self._members.items():
            if self._seconds[job_id] > 0:
                self._batches.deadlines.watch(attempt, self._seconds[job_id])
        jobs = [cast(Job[Any], attempt.job) for attempt in self._members.values()]
        work_many = cast(BatchWorker[Any], self._unit.worker).work_many
        if not self._unit.is_async:
            call = in_thread(work_many, cpu)
            await settle(await self._batches.threads.call(call, jobs))
            return
        if django_connections.in_use():
            await django_connections.close_old_of_async_jobs()
        await settle(work_many(jobs))


def _first_trace(error: BaseException) -> TracebackType | None:
    """Return the traceback with which the batch ended. Jobs and batches may share one exception,
    and its traceback grows with each raise: what other attempts added is left out.
    """
    trace = at = error.__traceback__
    while at is not None:
        if at.tb_frame.f_code is Batch.work.__code__:
            trace = at.tb_next
        at = at.tb_next
    return trace


def _key(args: str, by_args: bool | Sequence[str]) -> str:
    """Return a key that is equal for jobs of one kind that can be worked together."""
    if not by_args:
        return ""
    found = read_object(args)
    if by_args is not True:
        found = {key: found[key] for key in by_args if key in found}
    return json.dumps(found, sort_keys=True)


def _like(attempt: Attempt, by_args: bool | Sequence[str]) -> JobsAlike | None:
    """Return which jobs can be worked with this one; None if SQL cannot find them, as middleware
    has changed or decrypted the args.
    """
    like = JobsAlike(kind=attempt.row.kind, window=_WINDOW)
    if not by_args:
        return like
    if attempt.seen.args != attempt.row.args:
        return None
    return like._replace(args=attempt.row.args, keys=() if by_args is True else tuple(by_args))
