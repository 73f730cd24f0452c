"""Waits until jobs have ended, for all who wait in one client together: by notifications where a
client of ours works the job, and by looks at the table in any case.

River tells nobody that a job has ended. So waiting clients tell the working ones on a topic of
riverui's own which jobs they wait for, and those tell when one of them has ended
(`work/wanted_ends.py`). What Go works, what a person cancels and what is told in vain is found by
looking.
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
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

from riverui.domain.jobs import FINALIZED, JobRow, JobState
from riverui.engine.job_lists import MOST_COUNTED, JobListParams, count_jobs
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
"""Jobs in one look: ids and states alone."""
_ROWS = 100
"""Whole jobs in one statement: each may have a large output."""
_IDS_IN_PAYLOAD = 350
"""Ids in one notification: Postgres takes 8,000 bytes, and an id has up to 19 digits."""
_REST = 4.0
"""Times as long as a look at all jobs that match took, until the next: it may read many."""
_STOPPED = "The client was stopped while somebody waited for jobs."
_SHARE = 0.25
"""Part of the time that somebody has waited by now, after which is looked again."""


@dataclass(frozen=True, slots=True)
class JobStanding:
    """Where a job stands."""

    state: JobState | None
    """None for a state that only a newer River knows."""
    row: JobRow | None
    """The whole job once it has ended."""


async def look(driver: Driver, ids: Collection[int]) -> Mapping[int, JobStanding]:
    """Return where jobs stand, those that have ended with their rows; those that are not there are
    left out.
    """
    found: dict[int, JobStanding] = {}
    async with driver.autocommit() as executor:
        for some in _pieces(ids, _IDS):
            outcomes = await executor.job_outcome_list(some)
            found |= {each: JobStanding(outcome.state, None) for each, outcome in outcomes.items()}
        ended = [job_id for job_id, standing in found.items() if standing.state in FINALIZED]
        for some in _pieces(ended, _ROWS):
            for job_id in some:
                # Deleted meanwhile, unless it is among the rows.
                del found[job_id]
            for row in await executor.job_row_list(
                JobSelectParams(ids=tuple(some), limit=len(some))
            ):
                # It may also have been retried meanwhile.
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
    """Look whether unfinished jobs match, and yield how many seconds to wait until the next look,
    until there are none. WaitTimeout where it takes longer than `seconds`.
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
                if not await executor.job_row_count(select):
                    return
                looked = True
                if seconds is not None and clock() - began >= seconds:
                    counts = await executor.job_row_count(replace(select, limit=MOST_COUNTED))
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
    """Return how many jobs have not ended, in words."""
    number = sum(counts.values())
    told = ", ".join(f"{count:,} {state}" for state, count in Counter(counts).most_common())
    return f"{number:,} {'job has' if number == 1 else 'jobs have'} not ended ({told})"


async def tell_wanted(driver: Driver, ids: Collection[int]) -> None:
    """Tell working clients that somebody waits for these jobs."""
    async with driver.autocommit() as executor:
        await executor.notify_many(JOB_WANTED, payloads(ids))


class Waiting:
    """Somebody who waits for jobs."""

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
        """Rows that were not taken yet."""
        self.error: Exception | None = None
        self.left: dict[int, JobState | None] = dict.fromkeys(ids)
        """Jobs that have not ended, and their states as last seen."""
        self.seen: set[int] = set()
        """Those of them that were there."""
        self.looked = False
        """Whether all of its jobs were looked at."""
        self.woken = WakeUp()
        self._seconds = seconds

    def learn(self, looked_at: Collection[int], found: Mapping[int, JobStanding]) -> None:
        """Take in what a look has found."""
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
        """Let it wait no longer."""
        self.error = self.error or error
        self.woken.set()

    def is_over(self, now: float) -> bool:
        """Return whether it has waited long enough; each job is looked at once at least."""
        return self.looked and self.deadline is not None and now >= self.deadline

    def timeout(self) -> WaitTimeout:
        """Return the error of having waited long enough."""
        (job_id, state), *others = self.left.items()
        words = f"Job {job_id} is still {state or 'in an unknown state'}"
        if others:
            words = _not_ended(Counter(str(state or "unknown") for state in self.left.values()))
        return WaitTimeout(f"{words} after {self._seconds:g} s.", states=self.left)


def fail(waiting: Iterable[Waiting], error: DatabaseError) -> None:
    """Let nobody wait any longer, but for those that wait already while the database is away for a
    while.
    """
    passing = isinstance(error, DatabaseUnavailable | QueryTimeout)
    for each in waiting:
        if not (passing and each.looked):
            each.fail(error)


def next_look(waiting: Iterable[Waiting], looked_at: float, limits: EngineLimits) -> float:
    """Return when to look at all jobs again, by the clock of `looked_at`, which is that of the last
    look: soon where somebody has begun to wait just now, and right before one gives up.
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
    """A client, as those who wait know it."""

    driver: Driver
    logger: logging.Logger

    @property
    def notifier(self) -> Notifier | None:
        """What hears notifications while it works jobs."""
        ...


class JobResults:
    """Looks at jobs for all who wait for them, while there are any."""

    def __init__(
        self, client: WaitingClient, *, limits: EngineLimits, poll_only: bool = False
    ) -> None:
        self._client = client
        self._driver = client.driver
        self._listening: asyncio.Task[None] | None = None
        """Listens for notifications."""
        self._hinted: set[int] = set()
        """Jobs of which a notification says that they have ended."""
        self._limits = limits
        self.listening = False
        """Whether ends of jobs are heard of, as far as it knows."""
        self._poll_only = poll_only
        self._stopped = asyncio.Event()
        """Set, and replaced, when the client is stopped."""
        self._logger = client.logger
        self._task: asyncio.Task[None] | None = None
        self._untold: set[int] = set()
        """Jobs that working clients were not told of."""
        self.waiting: dict[Waiting, None] = {}
        """Who waits."""
        self._wake_up = WakeUp()

    @property
    def at_rest(self) -> bool:
        """Whether nobody waits, and nothing is listened to."""
        return self._task is None

    async def ended(
        self, ids: Collection[int], seconds: float | None
    ) -> AsyncGenerator[JobRow, None]:
        """Yield the rows of jobs as they end. NotFound for one that is not there, JobGone for one
        that no longer is, WaitTimeout for those that take too long.
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
        """Whether to hear notifications, as far as it is known what the database sends."""
        return not self._poll_only and LISTENING in self._driver.capabilities

    async def close(self) -> None:
        """Let nobody wait any longer; safe to call twice."""
        self._stopped.set()
        self._stopped = asyncio.Event()
        task, self._task = self._task, None
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _begin(self, waiting: Waiting) -> Waiting:
        self.waiting[waiting] = None
        self._untold.update(waiting.left)
        self._wake_up.set()
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            # Outside of the job, should one wait: what is done here is not its own.
            self._task = loop.create_task(self._run(), name="riverui results", context=Context())
        return waiting

    async def _run(self) -> None:
        try:
            await self._look_again_and_again()
        except Exception as error:
            for waiting in self.waiting:
                waiting.fail(error)
        except asyncio.CancelledError:
            for waiting in self.waiting:
                waiting.fail(RiveruiError(_STOPPED))
            raise
        finally:
            # From here on, who begins to wait begins anew.
            if self._task is asyncio.current_task():
                self._task = None
            listening, self._listening = self._listening, None
            self.listening = False
            self._hinted.clear()
            self._untold.clear()
            if listening is not None:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    async def _look_again_and_again(self) -> None:
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
                    self._hear(), name="riverui results, notifications"
                )
            now = loop.time()
            look_at = next_look(self.waiting, looked_at, limits)
            ids, self._hinted = self._hinted, set()
            if now >= look_at:
                ids, looked_at = self._ids(), now
            if now - renewed_at >= limits.results_renew_seconds:
                self._untold, renewed_at = self._ids(), now
            if ids:
                await self._look(ids)
            elif self.listening and self._untold:
                await self._tell()
            else:
                await self._wake_up.wait(look_at - loop.time())

    async def _look(self, ids: set[int]) -> None:
        try:
            found = await look(self._driver, ids)
        except DatabaseError as error:
            self._logger.debug("jobs that are waited for cannot be looked at: %s", error)
            fail(self.waiting, error)
            return
        for waiting in self.waiting:
            waiting.learn(ids, found)

    def _ids(self) -> set[int]:
        return {job_id for waiting in self.waiting for job_id in waiting.left}

    async def _tell(self) -> None:
        """Tell working clients which jobs are waited for; where that fails, looks are enough."""
        untold, self._untold = self._untold & self._ids(), set()
        if not untold:
            return
        try:
            await tell_wanted(self._driver, untold)
        except DatabaseError as error:
            self._logger.debug("it could not be told which jobs are waited for: %s", error)

    async def _hear(self) -> None:
        """Hear of jobs that have ended, until cancelled: with the client's notifier
        where it has one.
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
                self._logger.debug("nobody can tell of jobs that have ended: %s", error)
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
        self._untold = self._ids()
        self._wake_up.set()

    def _on_end(self, message: dict[str, Any]) -> None:
        if hinted := self._ids().intersection(ids_of(message)):
            self._hinted |= hinted
            self._wake_up.set()


def payloads(ids: Collection[int]) -> Sequence[str]:
    """Return notifications that name these jobs."""
    return [json.dumps({"ids": some}) for some in _pieces(ids, _IDS_IN_PAYLOAD)]


def ids_of(message: Mapping[str, Any]) -> Sequence[int]:
    """Return the jobs that a notification names; none where it is not one of ours."""
    ids = message.get("ids")
    if not isinstance(ids, list):
        return ()
    return [job_id for job_id in ids if type(job_id) is int]


def _pieces(items: Iterable[T], most: int) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(islice(left, most)):
        yield some
