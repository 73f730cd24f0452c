"""The slots of one queue, and the attempts that hold them; the only place where these counts
change.

A fetch reserves slots before its statement is sent, and keeps as many as jobs it returned. An
attempt holds its slot until it is over, unless it shares its batch's slot, or is stuck and the
program wants another job to run in its place.

In a backlog of short jobs more are fetched than there are slots, so that no slot is empty during a
fetch: as many as end in some milliseconds. They wait here, and are given back if no slot becomes
free.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from riverui.engine.work.attempt import Attempt, Cause
from riverui.engine.work.job_counts import JobCounts
from riverui.engine.work.stuck_jobs import StuckJobs
from riverui.storage.interface.engine_params import JobsAlike

if TYPE_CHECKING:
    from riverui.engine.work.batches import Batch
    from riverui.engine.work.candidate_fetch import Chooser

    FetchAlike: TypeAlias = Callable[[JobsAlike, int, Batch], Awaitable[Sequence[Attempt]]]
    """Fetches up to so many jobs for a batch, which take no slots, and returns their attempts."""

_AHEAD_FETCHES = 3
"""How much work may wait for slots, in the time of a fetch: the next one is sent when half of it is
left. All slots must become free in twice the time, otherwise jobs are too long to wait.
"""
_AHEAD_LEAST, _AHEAD_MOST = 0.01, 0.03
"""Limits of that time, in seconds: some jobs a fetch, and a delay that nobody notices."""
_AHEAD_JOBS = 10
"""Jobs that may wait for each slot: if the client is killed, they have to be rescued."""
_AVERAGE_OF = 8
"""Fetches whose time counts."""
_MEASURED_SECONDS = 0.05
"""Seconds over which ended jobs are counted, to know how many those are."""
_LONGEST_WAIT = 0.1
"""Seconds after which a job that still waits is given back: the jobs before it are long."""
_PAUSE_SECONDS = 10.0
"""Seconds without fetching ahead after that: there may be more long ones."""
_LANDED_SECONDS = 0.02
"""Seconds between checks whether fetches have ended: nothing urgent waits for that."""
_SETTLED_SECONDS = 0.001
"""Seconds between checks whether a result has arrived: about the database's response time."""


class Reservation:
    """The slots of one fetch, from its statement until its jobs begin or it returned none."""

    __slots__ = ("arrived", "began", "cancelled", "slots")

    def __init__(self, slots: int) -> None:
        self.arrived = False
        """Whether its jobs were fetched, and are about to begin."""
        self.began = time.monotonic()
        self.cancelled: set[int] = set()
        """Jobs cancelled in the meantime, which this fetch may return."""
        self.slots = slots


class SlotLedger:
    """Counts the slots of one queue. Its attempts report to it when they are over or stuck."""

    def __init__(
        self,
        max_workers: int,
        *,
        choosers: Sequence[Chooser],
        fetch_alike: FetchAlike,
        start: Callable[[Sequence[Attempt]], None],
        stuck_jobs: StuckJobs,
        wake: Callable[[], None],
    ) -> None:
        """Create a ledger of so many slots. `start` is called with attempts that have one; `wake`
        when there is room for jobs again.
        """
        self.attempts: dict[int, Attempt] = {}
        """Running attempts, by job."""
        self.backlog = False
        """Whether jobs may be fetched ahead: there are more, and no feature chooses among them."""
        self.drained = asyncio.Event()
        """Set after `stop`, when no fetch and no attempt is running."""
        self.fetch_alike = fetch_alike
        self.max_workers = max_workers
        self.running = 0
        """Attempts that are not over, and fetched jobs that have not begun. A job whose first
        attempt keeps running after a rescue, and which is fetched again, counts twice.
        """
        self.short = False
        """Whether there may be more jobs than there were free slots."""
        self._ahead = 0
        """Jobs to fetch ahead, by the last count of ended ones."""
        self._ahead_from = 0.0
        """When jobs may be fetched ahead again (monotonic)."""
        self._choosers = choosers
        self._counted, self._counted_at = 0, 0.0
        """Ended attempts at the last count, and when that was (monotonic)."""
        self._fetch_seconds = 0.0
        """How long fetches take."""
        self._give_back_timer: asyncio.TimerHandle | None = None
        self._pending = 0
        """Slots of `_taken` that no started attempt has."""
        self._reservations: list[Reservation] = []
        self._sharing = 0
        """Attempts that use the slot of their batch."""
        self._start = start
        self._stopping = False
        self._stuck_jobs = stuck_jobs
        self._taken = 0
        """Slots held by attempts, and reserved ones."""
        self._waiting: deque[tuple[float, Attempt]] = deque()
        """Attempts that have no slot yet, and when they were fetched (monotonic)."""
        self._wake = wake
        self._worked = 0

    @property
    def free(self) -> int:
        """Slots that are neither held nor reserved; negative after a reduction, and if jobs wait
        for slots.
        """
        return self.max_workers - self._taken

    @property
    def taken(self) -> int:
        """Slots that are held or reserved. After `stop` they only become fewer."""
        return max(self._taken, 0)

    @property
    def usage(self) -> tuple[int, int]:
        """All slots, and how many of them jobs hold; a batch holds one, reserved ones do not
        count.
        """
        return self.max_workers, min(self.running - self._sharing, self.max_workers)

    @property
    def working(self) -> int:
        """Attempts that are not over, without those that wait for a slot."""
        return self.running - len(self._waiting)

    @property
    def counts(self) -> JobCounts:
        """Return how many attempts have ended, are running, and are stuck."""
        stuck = sum(attempt.stuck for attempt in self.attempts.values())
        return JobCounts(worked=self._worked, running=self.working, stuck=stuck)

    @property
    def expecting(self) -> bool:
        """Whether a fetch may still return jobs, or its jobs have not begun."""
        return bool(self._reservations)

    @property
    def beginning(self) -> bool:
        """Whether fetched jobs have not begun."""
        return any(reservation.arrived for reservation in self._reservations)

    def room(self) -> int:
        """Return how many jobs to fetch: into all free slots, and ahead; 0 while at least half of
        the latter wait.
        """
        ahead = self._measured() if self.backlog and not self._sharing else 0
        return self.free + ahead if 2 * self.free + ahead > 0 else 0

    async def settled(self) -> None:
        """Wait until all jobs fetched before the current fetch are among the attempts."""
        while True:
            if len(self._reservations) <= 1:
                return
            await asyncio.sleep(_SETTLED_SECONDS)

    async def landed(self) -> None:
        """Wait until the jobs of all current fetches have begun, or could not be fetched."""
        current = set(self._reservations)
        while True:
            if current.isdisjoint(self._reservations):
                return
            await asyncio.sleep(_LANDED_SECONDS)

    def reserve(self, slots: int) -> Reservation:
        """Reserve slots for a fetch; none for a batch's fetch."""
        reservation = Reservation(slots)
        self._reservations.append(reservation)
        self._taken += slots
        self._pending += slots
        return reservation

    def arrive(self, reservation: Reservation, jobs: int) -> None:
        """Keep the slots of the fetched jobs, and free the others."""
        seconds = time.monotonic() - reservation.began
        self._fetch_seconds += (seconds - self._fetch_seconds) / _AVERAGE_OF
        if reservation.slots:
            self._taken -= reservation.slots - jobs
            self._pending -= reservation.slots - jobs
        else:
            self._sharing += jobs
        self.running += jobs
        if jobs:
            reservation.arrived = True
        else:
            self._close(reservation)

    def begin(
        self, reservation: Reservation, attempts: Sequence[Attempt], batch: Batch | None = None
    ) -> None:
        """Start the attempts at fetched jobs as slots become free; those of a batch share its
        slot.
        """
        for attempt in attempts:
            self.attempts[attempt.row.id] = attempt
        if batch is not None:
            for attempt in attempts:
                attempt.batch, attempt.slot_given_up = batch, True
            self._start(attempts)
        else:
            now = time.monotonic()
            self._waiting.extend((now, attempt) for attempt in attempts)
            self._start_waiting()
        self._close(reservation)

    def release(self, attempt: Attempt) -> None:
        """Free the slot of an attempt that is over."""
        job_id = attempt.row.id
        if self.attempts.get(job_id) is attempt:
            del self.attempts[job_id]
        self.running -= 1
        self._worked += 1
        if not attempt.slot_given_up:
            self._taken -= 1
        elif attempt.batch is not None:
            self._sharing -= 1
            attempt.batch.lose(attempt)
        if attempt.stuck:
            self._stuck_jobs.remove(attempt.row)
        for chooser in self._choosers:
            if chooser.active:
                chooser.ended(attempt.row)
        if self._waiting:
            self._start_waiting()
        if self.short and self.room() > 0:
            self._refill()
        if self._stopping:
            self._check_drained()

    def share_slot(self, attempt: Attempt) -> None:
        """Free the slot of an attempt that has joined a batch, which holds one."""
        if not attempt.slot_given_up:
            attempt.slot_given_up = True
            self._sharing += 1
            self._taken -= 1
            self._start_waiting()
            self._refill()

    def keep_slot(self, attempt: Attempt) -> None:
        """Give an attempt the slot of its batch, even if none is free."""
        if attempt.slot_given_up:
            attempt.slot_given_up = False
            self._sharing -= 1
            self._taken += 1

    def stuck(self, attempt: Attempt) -> None:
        """Record an attempt that runs long past its time limit; free its slot if the program wants
        that.
        """
        attempt.stuck = True
        if self._stuck_jobs.add(attempt.row) and not attempt.slot_given_up:
            attempt.slot_given_up = True
            self._sharing += attempt.batch is not None
            self._taken -= 1
            self._start_waiting()
            self._wake()

    def cancel_early(self, job_id: int) -> None:
        """Have a job cancelled when it begins, if a current fetch returns it."""
        for reservation in self._reservations:
            reservation.cancelled.add(job_id)

    def stop(self) -> None:
        """Set `drained` when all current fetches and attempts are over."""
        self._stopping = True
        self._check_drained()

    def _measured(self) -> int:
        """Return how many jobs to fetch ahead."""
        now = time.monotonic()
        if (seconds := now - self._counted_at) >= _MEASURED_SECONDS:
            ahead = max(_AHEAD_LEAST, min(_AHEAD_FETCHES * self._fetch_seconds, _AHEAD_MOST))
            ended = (self._worked - self._counted) / seconds * ahead
            short = 2 * ended >= self.max_workers and now >= self._ahead_from
            most = _AHEAD_JOBS * self.max_workers
            self._ahead = min(round(ended), most) if short else 0
            self._counted, self._counted_at = self._worked, now
        return self._ahead

    def _start_waiting(self) -> None:
        """Start as many of the attempts that wait as there are slots."""
        attempts = []
        while self._waiting and self._taken - self._pending < self.max_workers:
            self._pending -= 1
            attempts.append(self._waiting.popleft()[1])
        if attempts:
            self._start(attempts)
        if self._waiting and self._give_back_timer is None:
            seconds = self._waiting[0][0] + _LONGEST_WAIT - time.monotonic()
            loop = asyncio.get_running_loop()
            self._give_back_timer = loop.call_later(seconds, self._give_back)

    def _give_back(self) -> None:
        """End the attempts that have waited too long: nothing of their jobs has run."""
        self._give_back_timer = None
        now, late = time.monotonic(), list[Attempt]()
        while self._waiting and self._waiting[0][0] <= now - _LONGEST_WAIT:
            self._pending -= 1
            late.append(self._waiting.popleft()[1])
            late[-1].end(Cause.FULL)
        if late:
            self._ahead, self._ahead_from = 0, now + _PAUSE_SECONDS
            self._start(late)
        self._start_waiting()

    def _close(self, reservation: Reservation) -> None:
        self._reservations.remove(reservation)
        if self.free > 0:
            self._refill()
        if self._stopping:
            self._check_drained()

    def _refill(self) -> None:
        if self.short:
            self.short = False
            self._wake()

    def _check_drained(self) -> None:
        if not self._reservations and not self.running:
            self.drained.set()
