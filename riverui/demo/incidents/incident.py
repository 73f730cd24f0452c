"""What an incident of the demo shop is: the hour behind it, and what goes on being wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from riverui.demo.attempts import Row
from riverui.demo.history import live, new_job
from riverui.demo.shop import BY_NAME, KINDS, LANGUAGE, QUEUES, Kind, client_ids
from riverui.domain.health import Cause
from riverui.domain.jobs import JobState

PER_SECOND = 0.7
"""New jobs a second in the mean: enough for every kind that matters to have something usual."""
_BEHIND = timedelta(minutes=75)
"""How far the past reaches back: the hour that is compared, and what runs into it."""
_DEPLOYED = timedelta(hours=7)
"""How long ago the clients were started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """What is wrong with a kind of job while one looks on."""

    seconds: float = 0.0
    """How long each attempt takes; 0 for as long as usual."""
    failing: float = 0.0
    """The share of attempts (0 to 1) that end with `error`."""
    error: str = ""


class Past:
    """The jobs of the last hour, as they are written into the database."""

    def __init__(self, now: datetime, rng: Random) -> None:
        self.now = now
        self.rng = rng
        self.rows: list[Row] = []
        self.paused: dict[str, datetime] = {}
        """Since when queues have been paused."""
        self.marks: list[tuple[datetime, str]] = []

    def ago(self, **span: float) -> datetime:
        """Return a time so long before now."""
        return self.now - timedelta(**span)

    def client(self, queue: str, number: int = 0) -> str:
        """Return the id of a client that has served a queue for hours."""
        return client_ids(LANGUAGE[queue], self.now - _DEPLOYED)[number]

    def steady(
        self,
        *,
        since: timedelta = _BEHIND,
        until: timedelta = timedelta(0),
        per_second: float = PER_SECOND,
        kinds: Collection[Kind] = KINDS,
    ) -> None:
        """Let jobs of these kinds come, until then, and be worked as usual, until then. What would
        be under way at that time is left out: nobody of back then works any more.
        """
        chosen = [kind for kind in kinds if kind.share and not _paused(kind)]
        shares = [kind.share for kind in chosen]
        rate = per_second * sum(shares) / sum(kind.share for kind in KINDS)
        age = since
        while (age := age - timedelta(seconds=self.rng.expovariate(rate))) > until:
            kind = self.rng.choices(chosen, shares)[0]
            row = new_job(kind, self.now - age, self.rng)
            live(row, self.now, self.rng, worked_until=self.now - until)
            if row["state"] != JobState.AVAILABLE:
                self.rows.append(row)

    def put(
        self, kind: str, count: int, *, since: timedelta, until: timedelta = timedelta(0)
    ) -> Iterator[Row]:
        """Add jobs that came one after the other, and yield each for its columns to be changed.
        They are available, and have not been tried.
        """
        for number in range(count):
            at = self.now - since + (since - until) * (number / count)
            row = new_job(BY_NAME[kind], at, self.rng) | {
                "state": JobState.AVAILABLE,
                "scheduled_at": at,
                "unique_key": None,
                "unique_states": None,
            }
            self.rows.append(row)
            yield row

    def wait(
        self, kind: str, count: int, *, since: timedelta, until: timedelta = timedelta(0)
    ) -> None:
        """Let jobs wait that came one after the other."""
        for _ in self.put(kind, count, since=since, until=until):
            pass

    def run(self, kind: str, count: int, *, client: str, since: datetime) -> None:
        """Let a client hold jobs that it took at that time."""
        span = self.now - since
        for row in self.put(kind, count, since=span, until=span):
            row |= {
                "state": JobState.RUNNING,
                "attempt": 1,
                "attempted_at": since,
                "attempted_by": [client],
            }

    def fail(
        self, kind: str, count: int, *, since: timedelta, until: timedelta, error: str
    ) -> Iterator[Row]:
        """Add jobs whose first attempt failed, to be tried again in a quarter of an hour."""
        queue = BY_NAME[kind].queue
        for row in self.put(kind, count, since=since, until=until):
            at = row["scheduled_at"]
            row |= {
                "state": JobState.RETRYABLE,
                "attempt": 1,
                "attempted_at": at,
                "attempted_by": [self.client(queue)],
                "errors": [{"at": at, "attempt": 1, "error": error, "trace": ""}],
                "scheduled_at": self.now + timedelta(minutes=15),
            }
            yield row

    def done(
        self,
        kind: str,
        count: int,
        *,
        since: timedelta,
        until: timedelta,
        waited: timedelta = timedelta(milliseconds=400),
        ran: timedelta = timedelta(seconds=1),
    ) -> Iterator[Row]:
        """Add jobs that completed one after the other, each as it waited and ran."""
        queue = BY_NAME[kind].queue
        for row in self.put(kind, count, since=since, until=until):
            ended = row["scheduled_at"]
            assert isinstance(ended, datetime)
            row |= {
                "state": JobState.COMPLETED,
                "attempt": 1,
                "created_at": ended - ran - waited,
                "scheduled_at": ended - ran - waited,
                "attempted_at": ended - ran,
                "attempted_by": [self.client(queue)],
                "finalized_at": ended,
            }
            yield row

    def queues(self) -> list[Row]:
        """Return the rows of the shop's queues."""
        return [
            {
                "name": queue.name,
                "created_at": self.now - timedelta(days=41),
                "updated_at": self.now - timedelta(minutes=2),
                "paused_at": self.paused.get(queue.name),
            }
            for queue in QUEUES
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Incident:
    """One incident of the shop."""

    name: str
    words: str
    """What happened, in a sentence."""
    cause: Cause
    """What the health report names; NONE where it is calm."""
    past: Callable[[Past], None]
    """Writes the hour that lies behind it."""
    works: bool = True
    """Whether clients work while one looks on."""
    leads: bool = True
    """Whether one of them leads."""
    loses: bool = False
    """Whether the jobs that run at its beginning were lost with their client."""
    orders: Mapping[str, float] = field(default_factory=dict)
    """Jobs of a kind that come every second, besides the usual ones."""
    per_second: float = 1.8
    """Usual jobs that come every second: as many as the shop's workers get done."""
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    """What is wrong with kinds of jobs."""
    open_transaction: bool = False
    """Whether a session keeps a transaction open."""


def _paused(kind: Kind) -> bool:
    return any(queue.paused for queue in QUEUES if queue.name == kind.queue)
