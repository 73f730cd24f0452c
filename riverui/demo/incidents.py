"""Incidents for `riverui demo --incident NAME`: the hour before, and the continuing faults."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from riverui.demo.failures import Failure, error_and_trace
from riverui.demo.history import DEPLOYED, Row, live, new_job, write
from riverui.demo.shop import BY_NAME, KINDS, LANGUAGE, QUEUES, Kind, client_ids
from riverui.domain.health import Cause
from riverui.domain.jobs import JobState
from riverui.engine.client import Client
from riverui.storage.interface import Driver

_PER_SECOND = 0.7
"""Average new jobs a second: enough for a usual hour of each important kind."""
_BEHIND = timedelta(minutes=75)
"""Length of the history: the hour that is compared, and jobs that run into it."""
_TERM = timedelta(seconds=20)
"""Remaining term of the previous leader, until a running client takes over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """How a kind of job misbehaves during the incident."""

    seconds: float = 0.0
    """Duration of each attempt; 0 for the usual one."""
    failing: float = 0.0
    """The share of attempts (0 to 1) that end with `failure`."""
    failure: Failure | None = None


class Past:
    """The jobs of the last hour, or of an incident that begins now in a running demo."""

    def __init__(self, now: datetime, rng: Random, *, begins: bool = False) -> None:
        self.now = now
        self.rng = rng
        self.begins = begins
        """Whether the demo runs already, and has a past of its own."""
        self.rows: list[Row] = []
        self.paused_at: dict[str, datetime] = {}
        """Paused queues, with the time."""
        self.marks: list[tuple[datetime, str]] = []

    def client(self, queue: str, number: int = 0) -> str:
        """Return the id of a client that has served a queue for hours."""
        return client_ids(LANGUAGE[queue], self.now - DEPLOYED)[number]

    def steady(
        self,
        *,
        since: timedelta = _BEHIND,
        until: timedelta = timedelta(0),
        kinds: Collection[Kind] = KINDS,
    ) -> None:
        """Add jobs of these kinds that were inserted and worked as usual, until so long ago,
        without jobs that would still be running.
        """
        shares = [kind.share for kind in kinds]
        rate = _PER_SECOND * sum(shares) / sum(kind.share for kind in KINDS)
        age = until if self.begins else since
        while (age := age - timedelta(seconds=self.rng.expovariate(rate))) > until:
            kind = self.rng.choices(tuple(kinds), shares)[0]
            row = new_job(kind, self.now - age, self.rng)
            live(row, self.now, self.rng, worked_until=self.now - until)
            if row["state"] != JobState.AVAILABLE:
                self.rows.append(row)

    def add(
        self,
        kind: str,
        count: int,
        *,
        since: timedelta,
        until: timedelta = timedelta(0),
        **columns: Any,
    ) -> list[Row]:
        """Add jobs that were inserted one after the other, and return them. By default they are
        available and have no attempts.
        """
        rows = []
        for number in range(count):
            at = self.now - since + (since - until) * (number / count)
            row = new_job(BY_NAME[kind], at, self.rng)
            row |= {"state": JobState.AVAILABLE, "scheduled_at": at}
            rows.append(row | columns)
        self.rows += rows
        return rows

    def run(self, kind: str, count: int, *, client: str, since: timedelta) -> None:
        """Add running jobs that a client fetched so long ago."""
        taken = {"attempted_at": self.now - since, "attempted_by": [client]}
        running = {"state": JobState.RUNNING, "attempt": 1, **taken}
        self.add(kind, count, since=since, until=since, **running)

    def fail(
        self, kind: str, count: int, failure: Failure, *, since: timedelta, until: timedelta
    ) -> list[Row]:
        """Add jobs whose first attempt failed and which are retried in 15 minutes; return them."""
        error, trace = error_and_trace(failure, failure.error, {})
        rows = self.add(kind, count, since=since, until=until, state=JobState.RETRYABLE, attempt=1)
        for row in rows:
            at = row["created_at"]
            row |= {
                "attempted_at": at,
                "attempted_by": [self.client(BY_NAME[kind].queue)],
                "errors": [{"at": at, "attempt": 1, "error": error, "trace": trace}],
                "scheduled_at": self.now + timedelta(minutes=15),
            }
        return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Incident:
    """One incident of the shop."""

    name: str
    summary: str
    """What happened, in a sentence."""
    cause: Cause
    """The cause that the health report finds."""
    past: Callable[[Past], None]
    """Adds the jobs of the hour before."""
    loses_jobs: bool = False
    """Whether running jobs at its beginning were lost with their client."""
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """The faults by kind."""

    @property
    def title(self) -> str:
        """Return its name for people."""
        return self.name.replace("-", " ").capitalize()


async def prepare(
    driver: Driver, url: str, incident: Incident, *, now: datetime, rng: Random
) -> None:
    """Insert jobs, queues, marks and the leader of the last hour into an empty database."""
    past = Past(now, rng)
    incident.past(past)
    await write(url, rows=past.rows, paused_at=past.paused_at, marks=past.marks)
    async with driver.transaction() as db:
        await db.leader.attempt_elect(past.client("default"), ttl=_TERM)


class Stage:
    """A running demo, in which incidents are played."""

    def __init__(self, client: Client, url: str) -> None:
        self.faults: dict[str, Fault] = {}
        """The present faults by kind."""
        self.playing: Incident | None = None
        self._client = client
        self._url = url

    async def play(self, incident: Incident | None) -> None:
        """End the present incident, and begin this one."""
        self.faults.clear()
        self.playing = incident
        await self._client.queue_resume("*")
        if incident is not None:
            past = Past(datetime.now(UTC), Random(), begins=True)
            incident.past(past)
            await write(self._url, rows=past.rows, marks=past.marks)
            self.faults.update(incident.faults)
            for queue in past.paused_at:
                await self._client.queue_pause(queue)


def _dead_worker(past: Past) -> None:
    past.steady()
    # Longer ago than the report waits for a client; a running demo rescues the jobs two minutes
    # later.
    killed = timedelta(minutes=8 if past.begins else 12)
    client = past.client("webhooks", 2)
    for row in past.rows:
        if row["attempt"] and row["attempted_at"] > past.now - killed:
            # The others took what it would have taken.
            others = [by for by in row["attempted_by"] if by != client]
            row["attempted_by"] = others or [past.client("webhooks")]
    for kind, count in (("webhook_delivery", 5), ("email_send", 3), ("payment_capture", 1)):
        past.run(kind, count, client=client, since=killed)


def _all_paused(past: Past) -> None:
    paused = timedelta(minutes=0 if past.begins else 14)
    past.steady(until=paused)
    past.paused_at = {queue.name: past.now - paused for queue in QUEUES}
    waiting = {} if past.begins else {"email_send": 220, "webhook_delivery": 200, "fraud_check": 60}
    for kind, count in waiting.items():
        past.add(kind, count, since=paused)


_SLOW_SECONDS = 55.0
"""How long a fraud check takes once the service is slow: less than a minute, its time limit."""


def _slow_dependency(past: Past) -> None:
    if past.begins:
        past.add("fraud_check", 8, since=timedelta(0))
        return
    slow = timedelta(minutes=9)
    past.steady(until=slow)
    past.steady(since=slow, kinds=[kind for kind in KINDS if kind.queue != "default"])
    client, ran = past.client("default"), timedelta(seconds=_SLOW_SECONDS)
    since, until = slow - timedelta(minutes=1), timedelta(seconds=30)
    done = {"state": JobState.COMPLETED, "attempt": 1, "attempted_by": [client]}
    for row in past.add("fraud_check", 30, since=since, until=until, **done):
        ended_at = row["created_at"]
        inserted_at = ended_at - ran - timedelta(minutes=2)
        row |= {"created_at": inserted_at, "scheduled_at": inserted_at}
        row |= {"attempted_at": ended_at - ran, "finalized_at": ended_at}
    slots = next(queue.workers for queue in QUEUES if queue.name == "default")
    past.run("fraud_check", slots, client=client, since=timedelta(seconds=25))
    past.add("fraud_check", 14, since=timedelta(minutes=6))
    past.add("search_index_update", 30, since=timedelta(minutes=6))


def _add_fee(args: Mapping[str, Any]) -> Decimal:
    fee: Any = None
    total: Decimal = Decimal("12.90") + fee
    return total


_BUG = Failure(raises=_add_fee)


def _bad_deploy(past: Past) -> None:
    past.steady()
    deployed = timedelta(minutes=0 if past.begins else 9)
    past.marks.append((past.now - deployed, "v1.4.2"))
    if past.begins:
        past.add("email_send", 40, since=timedelta(0))
        return
    since, until = deployed - timedelta(seconds=30), timedelta(seconds=5)
    past.fail("email_send", 170, _BUG, since=since, until=until)


def _poison_job(past: Past) -> None:
    past.steady()
    rescues = 3
    started = [past.now - timedelta(minutes=70 * n + 65) for n in reversed(range(rescues))]
    # What River's rescuer writes, and riverui's too.
    error = "Stuck job rescued by JobRescuer"
    (row,) = past.add("image_resize", 1, since=timedelta(hours=4))
    row["metadata"]["river:rescue_count"] = rescues
    row |= {
        "state": JobState.RETRYABLE,
        "attempt": rescues,
        "attempted_at": started[-1],
        "attempted_by": [past.client("media", number % 2) for number in range(rescues)],
        "errors": [
            {"at": at, "attempt": number, "error": error, "trace": ""}
            for number, at in enumerate(started, 1)
        ],
        "scheduled_at": past.now + timedelta(minutes=20),
    }


def _retry_storm(past: Past) -> None:
    past.steady()
    # The partner is available again since longer than what the report calls now.
    down, up, due = timedelta(minutes=42), timedelta(minutes=26), timedelta(minutes=5)
    failure = Failure(error="webhook endpoint answered 503 Service Unavailable")
    for row in past.fail("webhook_delivery", 1_800, failure, since=down, until=up):
        row |= {"state": JobState.AVAILABLE, "scheduled_at": past.now - due}
    client = past.client("webhooks")
    past.run("webhook_delivery", 8, client=client, since=timedelta(seconds=0.7))


INCIDENTS: Mapping[str, Incident] = {
    incident.name: incident
    for incident in (
        Incident(
            name="dead-worker",
            summary="A worker process was killed. The nine jobs that it held still count as"
            " running; the other workers go on.",
            cause=Cause.LOST_CLIENT,
            past=_dead_worker,
            loses_jobs=True,
        ),
        Incident(
            name="all-paused",
            summary="All queues were paused for a release, and nobody has resumed them.",
            cause=Cause.PAUSED,
            past=_all_paused,
        ),
        Incident(
            name="slow-dependency",
            summary="The service that fraud_check asks answers after 55 seconds instead of two."
            " Its jobs hold every slot of the queue default, and others wait behind them.",
            cause=Cause.SLOW_KIND,
            past=_slow_dependency,
            faults={"fraud_check": Fault(seconds=_SLOW_SECONDS)},
        ),
        Incident(
            name="bad-deploy",
            summary="Release v1.4.2 was deployed. Most attempts of email_send now fail with a"
            " TypeError.",
            cause=Cause.DEPLOY,
            past=_bad_deploy,
            faults={"email_send": Fault(failing=0.8, failure=_BUG)},
        ),
        Incident(
            name="poison-job",
            summary="One image_resize job makes its worker run out of memory. It has been rescued"
            " three times since, and will be tried again in 20 minutes.",
            cause=Cause.POISON_JOB,
            past=_poison_job,
        ),
        Incident(
            name="retry-storm",
            summary="A partner was unavailable for a quarter of an hour. The 1,800 webhooks that"
            " failed meanwhile have come due at the same time, and new ones wait behind them.",
            cause=Cause.RETRY_STORM,
            past=_retry_storm,
        ),
    )
}
