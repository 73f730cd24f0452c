"""The slots of one queue, and the attempts that hold them; the only place where these counts
change.

A fetch reserves slots before its statement is sent, and keeps as many as jobs it returned. An
attempt holds its slot until it is over, unless it shares its batch's slot, or is stuck and the
program wants another job to run in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from riverui.engine.work.attempt import Attempt
from riverui.engine.work.job_counts import JobCounts
from riverui.engine.work.stuck_jobs import StuckJobs
from riverui.storage.interface.engine_params import JobsAlike

if TYPE_CHECKING:
    from riverui.engine.work.batches import Batch
    from riverui.engine.work.candidate_fetch import Chooser

    FetchAlike: TypeAlias = Callable[[JobsAlike, int, Batch], Awaitable[Sequence[Attempt]]]
    """Fetches up to so many jobs for a batch, which take no slots, and returns their attempts."""

_LANDED_SECONDS = 0.02
"""Seconds between checks whether fetches have ended: nothing urgent waits for that."""
_SETTLED_SECONDS = 0.001
"""Seconds between checks whether a result has arrived: about the database's response time."""


class Reservation:
    """The slots of one fetch, from its statement until its jobs begin or it returned none."""

    __slots__ = ("arrived", "cancelled", "slots")

    def __init__(self, slots: int) -> None:
        self.arrived = False
        """Whether its jobs were fetched, and are about to begin."""
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
        stuck_jobs: StuckJobs,
        wake: Callable[[], None],
    ) -> None:
        """Create a ledger of so many slots; `wake` is called when a slot is freed that a fetch
        lacked.
        """
        """Make one with all slots free; `wake` is called when one is freed that was missing."""
        self.attempts: dict[int, Attempt] = {}
        """Running attempts, by job."""
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
        self._choosers = choosers
        self._reservations: list[Reservation] = []
        self._sharing = 0
        """Attempts that use the slot of their batch."""
        self._stopping = False
        self._stuck_jobs = stuck_jobs
        self._taken = 0
        """Slots held by attempts, and reserved ones."""
        self._wake = wake
        self._worked = 0

    @property
    def free(self) -> int:
        """Slots that are neither held nor reserved; negative after a reduction."""
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
    def counts(self) -> JobCounts:
        """Return how many attempts have ended, are running, and are stuck."""
        stuck = sum(attempt.stuck for attempt in self.attempts.values())
        return JobCounts(worked=self._worked, running=self.running, stuck=stuck)

    @property
    def expecting(self) -> bool:
        """Whether a fetch may still return jobs, or its jobs have not begun."""
        return bool(self._reservations)

    @property
    def beginning(self) -> bool:
        """Whether fetched jobs have not begun."""
        return any(reservation.arrived for reservation in self._reservations)

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
        return reservation

    def arrive(self, reservation: Reservation, jobs: int) -> None:
        """Keep the slots of the fetched jobs, and free the others."""
        if reservation.slots:
            self._taken -= reservation.slots - jobs
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
        """Count the attempts at fetched jobs as running; those of a batch share its slot."""
        for attempt in attempts:
            self.attempts[attempt.row.id] = attempt
        if batch is not None:
            for attempt in attempts:
                attempt.batch, attempt.slot_given_up = batch, True
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
        if self.short:
            self._refill()
        if self._stopping:
            self._check_drained()

    def share_slot(self, attempt: Attempt) -> None:
        """Free the slot of an attempt that has joined a batch, which holds one."""
        if not attempt.slot_given_up:
            attempt.slot_given_up = True
            self._sharing += 1
            self._taken -= 1
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
            self._wake()

    def cancel_early(self, job_id: int) -> None:
        """Have a job cancelled when it begins, if a current fetch returns it."""
        for reservation in self._reservations:
            reservation.cancelled.add(job_id)

    def stop(self) -> None:
        """Set `drained` when all current fetches and attempts are over."""
        self._stopping = True
        self._check_drained()

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
