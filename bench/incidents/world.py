"""Plays a background's jobs, and what an incident changes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from random import Random

from bench.incidents.background import AFTER, MINUTE, RECENT, Background, Kind

_POLL = 0.15
"""Seconds between an insert and its fetch on average."""
_MOVED_AT_ONCE = 5.0
"""Retries that are due within so many seconds are available at once; the leader moves others."""
_MOST_ATTEMPTS = 25
"""Attempts of a job until it is discarded: River's default."""

Span = tuple[float, float]
"""A range of time, without its end."""


class Attempt:
    """One attempt of a job."""

    __slots__ = ("client", "due", "end", "error", "start", "state")

    def __init__(self, due: float, start: float, client: str) -> None:
        self.due = due
        """The job's `scheduled_at`."""
        self.start = start
        self.end = inf
        """When it ended; never if it still runs in the end."""
        self.state = "completed"
        """The job's state afterwards."""
        self.error = ""
        self.client = client


class Job:
    """One job and its attempts."""

    __slots__ = (
        "attempts",
        "available",
        "cancelled",
        "created",
        "due",
        "id",
        "kind",
        "meta",
        "moved",
        "rescued",
    )

    def __init__(self, kind: Kind, created: float, due: float) -> None:
        self.id = 0
        self.kind = kind
        self.created = created
        self.due = due
        """The present `scheduled_at`, after its last attempt."""
        self.moved = created if due <= created else inf
        """When it became available; never if nothing does that."""
        self.attempts: list[Attempt] = []
        self.cancelled = inf
        self.rescued = False
        """Whether its metadata counts how often it was rescued, as newer versions of River do."""


class World:
    """What an incident changes, and the jobs that follow from it. It begins at 0 seconds."""

    def __init__(self, background: Background, rng: Random) -> None:
        self.background = background
        self.rng = rng
        self.leader: str | None = rng.choice(background.clients).id
        """The client that leads; None if none does."""
        self.paused: dict[str, float] = {}
        """Queue → since when."""
        self.locks = self.idle = ""
        """The names of sessions: one locks River's jobs, one leaves a transaction open."""
        self.marks: list[tuple[float, str]] = []
        """Deploys."""
        self.ended: dict[str, float] = {}
        """Client → when it stopped in an orderly way."""
        self.stops: dict[str, Span] = {}
        """Queue → when no job of it is started."""
        self.gone: dict[str, float] = {}
        """Client → when it is killed."""
        self.started: dict[str, float] = {}
        """Client → when it starts, if later than everything."""
        self.unserved: set[str] = set()
        """Queues that no client serves any more, as their heartbeats show."""
        self.reports: set[str] | None = None
        """Clients that send heartbeats; None for all or none, as in the background."""
        self.frozen = inf
        """When everything that writes waits."""
        self.leaderless = inf
        """From when on due jobs are not made available."""
        self.untaken: dict[str, float] = {}
        """Kind → from when on no client takes its jobs."""
        self.runs: dict[str, Callable[[float, float], float]] = {}
        """Kind → how long a run lasts that begins then and usually lasts so many seconds."""
        self.fails: dict[str, tuple[Span, float, str]] = {}
        """Kind → when so large a share of its attempts fails, and the error."""
        self.back: Callable[[Job, float], float] | None = None
        """When a job that failed then is tried again, if not by River's policy."""
        self.rates: dict[str, tuple[Span, float]] = {}
        """Kind → when how many times as many jobs of it come."""
        self.added: list[Job] = []
        """Further jobs that are to be worked."""
        self._played: list[Job] = []
        self.made: list[Job] = []
        """Jobs that are complete as they are."""

    def jobs(self) -> list[Job]:
        """Return the jobs of the last hour and after the beginning, in the order of their ids."""
        found = list(self._inserted())
        by_queue: dict[str, list[Job]] = {}
        for job in found:
            by_queue.setdefault(job.kind.queue, []).append(job)
        for queue, own in by_queue.items():
            self._work(queue, own)
        found += self.made
        found.sort(key=lambda job: job.created)
        self._played = found
        return found

    def waits(self, queue: str, minutes: float) -> float:
        """Return how many minutes the oldest job of a queue waits, so long after the beginning."""
        at = minutes * MINUTE
        due = [
            job.due if len(done) == len(job.attempts) else job.attempts[len(done)].due
            for job in self._played
            if job.kind.queue == queue and job.created <= at < job.cancelled
            if (done := [attempt for attempt in job.attempts if attempt.start <= at]) is not None
            if not done or (done[-1].end <= at and done[-1].state == "retryable")
        ]
        return max((at - each) / MINUTE for each in (at, *due))

    def hung(self, kind: Kind, minutes: float, *, longer: float) -> int:
        """Return how many jobs of a kind that never end have run for longer than so many seconds,
        so long after the beginning.
        """
        until = minutes * MINUTE - longer
        return sum(
            job.kind is kind and any(a.start < until and a.end == inf for a in job.attempts)
            for job in self._played
        )

    def failed(self, kind: Kind, minutes: float) -> int:
        """Return how many jobs of a kind have failed so long after the beginning."""
        return sum(
            any(attempt.error and 0 <= attempt.end <= minutes * MINUTE for attempt in job.attempts)
            for job in self._played
            if job.kind is kind
        )

    def _inserted(self) -> Iterator[Job]:
        rng, background = self.rng, self.background
        for kind in background.kinds:
            changed = self.rates.get(kind.name)
            for at in background.arrivals(kind, -RECENT, AFTER, rng):
                times = 1.0
                if changed and changed[0][0] <= at < changed[0][1]:
                    times = changed[1]
                copies = int(times) + (rng.random() < times % 1)
                for n in range(copies if at < self.frozen else 0):
                    created = at + n * rng.random() * 5
                    due = created
                    if kind.later and rng.random() < kind.later:
                        due += rng.expovariate(1 / 600)
                    yield Job(kind, created, due)
        yield from self.added

    def _work(self, queue: str, jobs: list[Job]) -> None:
        rng = self.rng
        free = [
            (self.started.get(client.id, -inf), rng.random(), client.id)
            for client in self.background.clients
            for _ in range(client.slots.get(queue, 0))
        ]
        heapify(free)
        since, until = self.stops.get(queue, (inf, inf))
        ready = []
        for number, job in enumerate(jobs):
            if job.due > job.created:
                job.moved = self._moved(job.due)
            ready.append((job.moved, number, job))
        heapify(ready)
        number = len(jobs)
        while ready and free:
            at, _, job = heappop(ready)
            if at == inf:
                return
            slot, _, client = heappop(free)
            start = max(at, slot) + (0.02 if slot > at else rng.expovariate(1 / _POLL))
            gone = self.gone.get(client, inf)
            if start >= min(gone, self.ended.get(client, inf)):
                heappush(ready, (at, number, job))
                number += 1
                continue
            if since <= start < until:
                start = until + rng.random()
            if start >= min(self.frozen, job.cancelled, self.untaken.get(job.kind.name, inf)):
                heappush(free, (slot, rng.random(), client))
                continue
            attempt = Attempt(job.due, start, client)
            job.attempts.append(attempt)
            end = start + self._run(job.kind, start)
            if end >= min(gone, self.frozen) or end == inf:
                # Its slot is not free again.
                continue
            attempt.end = end
            heappush(free, (end, rng.random(), client))
            if error := self._error(job.kind, start):
                attempt.error = error
                attempt.state = "retryable"
                if len(job.attempts) >= _MOST_ATTEMPTS:
                    attempt.state = "discarded"
                    continue
                job.due = self._back(job, end)
                quick = job.due - end < _MOVED_AT_ONCE
                job.moved = max(job.due, end) if quick else self._moved(job.due)
                heappush(ready, (job.moved, number, job))
                number += 1

    def _moved(self, due: float) -> float:
        at = due + self.rng.random() * 5
        return inf if at >= min(self.leaderless, self.frozen) else at

    def _run(self, kind: Kind, start: float) -> float:
        usual = kind.run_seconds(self.rng)
        change = self.runs.get(kind.name)
        return change(start, usual) if change else usual

    def _error(self, kind: Kind, start: float) -> str:
        if found := self.fails.get(kind.name):
            (since, until), share, error = found
            if since <= start < until and self.rng.random() < share:
                return error
        return "Timeout: read timed out" if self.rng.random() < kind.failing else ""

    def _back(self, job: Job, end: float) -> float:
        if self.back is not None and (at := self.back(job, end)):
            return at
        failed = sum(1 for attempt in job.attempts if attempt.error)
        return end + failed**4 * self.rng.uniform(0.9, 1.1)
