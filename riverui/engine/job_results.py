"""Wait until jobs have ended. All waits of one client share notifications and polls of the table.

River sends no notification when a job ends. So waiting clients send the ids they wait for on a
topic of riverui's own, and working clients send a notification when one of those jobs ends
(`work/wanted_ends.py`). Polling finds everything else: jobs worked by Go, jobs that a person
cancels, and lost notifications.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from contextvars import Context
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from riverui.domain.jobs import FINALIZED, JobRow, JobState
from riverui.engine.job_lists import MAX_COUNTED, JobListParams, count_jobs
from riverui.engine.limits import EngineLimits
from riverui.engine.notifier import JOB_ENDED, JOB_WANTED, Notifier
from riverui.engine.service import WakeUp
from riverui.errors import (
    DatabaseError,
    DatabaseUnavailable,
    JobGone,
    NotFound,
    QueryTimeout,
    RiveruiError,
    WaitTimeout,
)
from riverui.storage.interface import LISTENING, Driver
from riverui.storage.interface.engine_params import JobSelectParams

T = TypeVar("T")

_IDS = 1_000
"""Jobs per poll statement, which reads only ids and states."""
_ROWS = 100
"""Whole jobs per statement: each may have a large output."""
_IDS_IN_PAYLOAD = 350
"""Ids per notification: Postgres allows 8,000 bytes, and an id has up to 19 digits."""
_REST = 4.0
"""The pause between polls of all matching jobs, as a multiple of the last poll's duration: a poll
may read many jobs.
"""
_STOPPED = "The client was stopped during a wait for jobs."
_SHARE = 0.25
"""The pause before the next poll, as a share of the time waited so far."""


@dataclass(frozen=True, slots=True)
class JobStanding:
    """The state of a job at a poll."""

    state: JobState | None
    """None for a state that only a newer River knows."""
    row: JobRow | None
    """The whole job if it has ended."""


async def look(driver: Driver, ids: Collection[int]) -> Mapping[int, JobStanding]:
    """Return the states of jobs, with the rows of those that have ended; missing jobs are left
    out.
    """
    found: dict[int, JobStanding] = {}
    async with driver.autocommit() as executor:
        for some in _pieces(ids, _IDS):
            outcomes = await executor.jobs.outcome_list(some)
            found |= {each: JobStanding(outcome.state, None) for each, outcome in outcomes.items()}
        ended = [job_id for job_id, standing in found.items() if standing.state in FINALIZED]
        for some in _pieces(ended, _ROWS):
            for job_id in some:
                # Re-added below unless it was deleted meanwhile.
                del found[job_id]
            for row in await executor.jobs.row_list(
                JobSelectParams(ids=tuple(some), limit=len(some))
            ):
                # It may have been retried meanwhile.
                has_ended = row.state in FINALIZED
                found[row.id] = JobStanding(row.state, row if has_ended else None)
    return found


async def looks_until_ended(
    driver: Driver,
    params: JobListParams,
    seconds: float | None,
    limits: EngineLimits,
    clock: Callable[[], float],
) -> AsyncGenerator[float, None]:
    """Poll for unfinished jobs that match, and yield the seconds to wait before the next poll,
    until none are left. WaitTimeout if that takes longer than `seconds`.
    """
    select = params.select()
    wanted = () if select is None else select.states or tuple(JobState)
    unfinished = tuple(state for state in wanted if state not in FINALIZED)
    if select is None or not unfinished:
        return
    began, looked = clock(), False
    select = replace(select, states=unfinished, limit=1)
    while True:
        asked = clock()
        try:
            async with driver.autocommit() as executor:
                if not await executor.jobs.row_count(select):
                    return
                looked = True
                if seconds is not None and clock() - began >= seconds:
                    counts = await executor.jobs.row_count(replace(select, limit=MAX_COUNTED))
                    words = _not_ended({state.value: jobs for state, jobs in counts.items()})
                    raise WaitTimeout(f"{words} after {seconds:g} s.", states={})
        except (DatabaseUnavailable, QueryTimeout):
            if not looked:
                raise
        now = clock()
        pause = min(
            max(_SHARE * (now - began), limits.results_least_seconds), limits.results_most_seconds
        )
        pause = max(pause, _REST * (now - asked))
        yield pause if seconds is None else max(min(pause, began + seconds - now), 0)


def _not_ended(counts: Mapping[str, int]) -> str:
    """Describe how many jobs have not ended."""
    number = sum(counts.values())
    states = ", ".join(f"{count:,} {state}" for state, count in Counter(counts).most_common())
    return f"{number:,} {'job has' if number == 1 else 'jobs have'} not ended ({states})"


async def notify_wanted(driver: Driver, ids: Collection[int]) -> None:
    """Notify working clients that these jobs are waited for."""
    async with driver.autocommit() as executor:
        await executor.notify_many(JOB_WANTED, payloads(ids))


class Waiting:
    """One wait for a set of jobs."""

    def __init__(self, ids: Iterable[int], now: float, seconds: float | None) -> None:
        ids = list(ids)
        for each in ids:
            if not hasattr(each, "__index__"):
                raise TypeError(
                    "jobs are waited for by their ids, such as result.job.id, not by"
                    f" {type(each).__name__}"
                )
        self.began = now
        self.deadline = None if seconds is None else now + seconds
        self.ended: deque[JobRow] = deque()
        """Rows that the caller has not read yet."""
        self.error: Exception | None = None
        self.left: dict[int, JobState | None] = dict.fromkeys(ids)
        """Jobs that have not ended, and their last known states."""
        self.seen: set[int] = set()
        """Jobs that were found by a poll and have not ended."""
        self.looked = False
        """Whether all of its jobs were polled at least once."""
        self.woken = WakeUp()
        self._seconds = seconds

    def learn(self, looked_at: Collection[int], found: Mapping[int, JobStanding]) -> None:
        """Process the result of a poll."""
        for job_id in [job_id for job_id in self.left if job_id in looked_at]:
            standing = found.get(job_id)
            if standing is None:
                del self.left[job_id]
                gone = JobGone if job_id in self.seen else NotFound
                self.error = self.error or gone(f"Job not found: {job_id}.")
            elif standing.row is not None:
                del self.left[job_id]
                self.ended.append(standing.row)
            else:
                self.left[job_id] = standing.state
                self.seen.add(job_id)
        self.looked = self.looked or self.left.keys() <= self.seen
        if self.ended or self.error or not self.left or self.looked:
            self.woken.set()

    def fail(self, error: Exception) -> None:
        """End the wait with an error."""
        self.error = self.error or error
        self.woken.set()

    def is_over(self, now: float) -> bool:
        """Return whether the timeout has passed; each job is polled at least once before that."""
        return self.looked and self.deadline is not None and now >= self.deadline

    def timeout(self) -> WaitTimeout:
        """Return the timeout's error."""
        (job_id, state), *others = self.left.items()
        words = f"Job {job_id} is still {state or 'in an unknown state'}"
        if others:
            words = _not_ended(Counter(str(state or "unknown") for state in self.left.values()))
        return WaitTimeout(f"{words} after {self._seconds:g} s.", states=self.left)


def fail(waiting: Iterable[Waiting], error: DatabaseError) -> None:
    """Fail these waits. Those that have polled before survive a database that is temporarily
    unavailable.
    """
    passing = isinstance(error, DatabaseUnavailable | QueryTimeout)
    for each in waiting:
        if not (passing and each.looked):
            each.fail(error)


def next_look(waiting: Iterable[Waiting], looked_at: float, limits: EngineLimits) -> float:
    """Return when to poll all jobs again, by the clock of `looked_at` (the last poll): soon after a
    wait has begun, and right before one times out.
    """
    least, most = limits.results_least_seconds, limits.results_most_seconds
    youngest, soonest = float("inf"), float("inf")
    for each in waiting:
        youngest = min(youngest, looked_at - each.began)
        if each.deadline is not None and each.deadline > looked_at + least:
            soonest = min(soonest, each.deadline - least)
    pause = min(max(_SHARE * youngest, least), most)
    return max(min(looked_at + pause, soonest), looked_at + least)


class WaitingClient(Protocol):
    """The part of a client that waits need."""

    driver: Driver
    logger: logging.Logger

    @property
    def notifier(self) -> Notifier | None:
        """The client's notifier while it works jobs."""
        ...


class JobResults:
    """Polls jobs for all waits of one client, as long as there are any."""

    def __init__(
        self, client: WaitingClient, *, limits: EngineLimits, poll_only: bool = False
    ) -> None:
        self._client = client
        self._driver = client.driver
        self._listening: asyncio.Task[None] | None = None
        """The task that listens for notifications."""
        self._hinted: set[int] = set()
        """Jobs that have ended according to a notification."""
        self._limits = limits
        self.listening = False
        """Whether notifications of ended jobs are being received."""
        self._poll_only = poll_only
        self._stopped = asyncio.Event()
        """Set, and replaced, when the client is stopped."""
        self._logger = client.logger
        self._task: asyncio.Task[None] | None = None
        self._unannounced: set[int] = set()
        """Jobs that working clients were not notified about yet."""
        self.waiting: dict[Waiting, None] = {}
        """The current waits, in order."""
        self._wake_up = WakeUp()

    @property
    def at_rest(self) -> bool:
        """Whether nothing is waited for or listened to."""
        return self._task is None

    async def ended(
        self, ids: Collection[int], seconds: float | None
    ) -> AsyncGenerator[JobRow, None]:
        """Yield the rows of jobs as they end. NotFound for a job that does not exist, JobGone for
        one that was deleted during the wait, WaitTimeout if they take too long.
        """
        if not ids:
            return
        loop = asyncio.get_running_loop()
        waiting = self._begin(Waiting(ids, loop.time(), seconds))
        try:
            while True:
                while waiting.ended:
                    yield waiting.ended.popleft()
                if waiting.error is not None:
                    raise waiting.error
                if not waiting.left:
                    return
                if waiting.is_over(loop.time()):
                    raise waiting.timeout()
                remaining = None
                if waiting.looked and waiting.deadline is not None:
                    remaining = waiting.deadline - loop.time()
                await waiting.woken.wait(remaining)
        finally:
            self.waiting.pop(waiting, None)
            self._wake_up.set()

    async def all_ended(
        self, params: JobListParams, seconds: float | None
    ) -> Mapping[JobState, int]:
        """Return the counts of the jobs that match, once all have ended; see looks_until_ended."""
        clock, stopped = asyncio.get_running_loop().time, self._stopped
        looks = looks_until_ended(self._driver, params, seconds, self._limits, clock)
        async with aclosing(looks):
            async for pause in looks:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), pause)
                    raise RiveruiError(_STOPPED)
        async with self._driver.autocommit() as executor:
            return await count_jobs(executor, params)

    @property
    def _listens(self) -> bool:
        """Whether to listen for notifications, if the database is known to send them."""
        return not self._poll_only and LISTENING in self._driver.capabilities

    async def close(self) -> None:
        """Fail all waits; safe to call twice."""
        self._stopped.set()
        self._stopped = asyncio.Event()
        task, self._task = self._task, None
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _begin(self, waiting: Waiting) -> Waiting:
        self.waiting[waiting] = None
        self._unannounced.update(waiting.left)
        self._wake_up.set()
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            # Without the context of a job that waits: this task does not belong to it.
            self._task = loop.create_task(self._run(), name="riverui results", context=Context())
        return waiting

    async def _run(self) -> None:
        try:
            await self._poll_until_idle()
        except Exception as error:
            for waiting in self.waiting:
                waiting.fail(error)
        except asyncio.CancelledError:
            for waiting in self.waiting:
                waiting.fail(RiveruiError(_STOPPED))
            raise
        finally:
            # A later wait starts a new task.
            if self._task is asyncio.current_task():
                self._task = None
            listening, self._listening = self._listening, None
            self.listening = False
            self._hinted.clear()
            self._unannounced.clear()
            if listening is not None:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def _poll_until_idle(self) -> None:
        loop = asyncio.get_running_loop()
        looked_at, renewed_at, limits = float("-inf"), loop.time(), self._limits
        while True:
            if not self.waiting:
                if self._listening is None or not await self._wake_up.wait(
                    limits.results_linger_seconds
                ):
                    return
                continue
            if self._listening is None and self._listens:
                self._listening = loop.create_task(
                    self._listen(), name="riverui results, notifications"
                )
            now = loop.time()
            look_at = next_look(self.waiting, looked_at, limits)
            ids, self._hinted = self._hinted, set()
            if now >= look_at:
                ids, looked_at = self._ids(), now
            if now - renewed_at >= limits.results_renew_seconds:
                self._unannounced, renewed_at = self._ids(), now
            if ids:
                await self._look(ids)
            elif self.listening and self._unannounced:
                await self._notify()
            else:
                await self._wake_up.wait(look_at - loop.time())

    async def _look(self, ids: set[int]) -> None:
        try:
            found = await look(self._driver, ids)
        except DatabaseError as error:
            self._logger.debug("jobs that are waited for cannot be polled: %s", error)
            fail(self.waiting, error)
            return
        for waiting in self.waiting:
            waiting.learn(ids, found)

    def _ids(self) -> set[int]:
        return {job_id for waiting in self.waiting for job_id in waiting.left}

    async def _notify(self) -> None:
        """Notify working clients which jobs are waited for; if that fails, polling is enough."""
        unannounced, self._unannounced = self._unannounced & self._ids(), set()
        if not unannounced:
            return
        try:
            await notify_wanted(self._driver, unannounced)
        except DatabaseError as error:
            self._logger.debug("working clients could not be notified of waits: %s", error)

    async def _listen(self) -> None:
        """Listen for jobs that have ended, until cancelled; use the client's notifier if it has
        one.
        """
        notifier, own = self._client.notifier, None
        if notifier is None:
            notifier = own = Notifier(self._driver, self._logger, topics=())
        undo = notifier.subscribe(JOB_ENDED, self._on_end), notifier.on_reconnect(self._on_connect)
        try:
            try:
                await notifier.listen(JOB_ENDED)
                if own is not None:
                    await own.connect()
            except (DatabaseError, OSError) as error:
                self._logger.debug("ends of jobs are not notified: %s", error)
            else:
                self._on_connect()
            if own is not None and self._listens:
                await own.run()
            await asyncio.get_running_loop().create_future()
        finally:
            for each in undo:
                each()
            if own is not None:
                await own.close()

    def _on_connect(self) -> None:
        self.listening = True
        self._unannounced = self._ids()
        self._wake_up.set()

    def _on_end(self, message: dict[str, Any]) -> None:
        if hinted := self._ids().intersection(ids_of(message)):
            self._hinted |= hinted
            self._wake_up.set()


def payloads(ids: Collection[int]) -> Sequence[str]:
    """Return notification payloads that name these jobs."""
    return [json.dumps({"ids": some}) for some in _pieces(ids, _IDS_IN_PAYLOAD)]


def ids_of(message: Mapping[str, Any]) -> Sequence[int]:
    """Return the jobs that a notification names; none if it is not riverui's."""
    ids = message.get("ids")
    if not isinstance(ids, list):
        return ()
    return [job_id for job_id in ids if type(job_id) is int]


def _pieces(items: Iterable[T], most: int) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(islice(left, most)):
        yield some
