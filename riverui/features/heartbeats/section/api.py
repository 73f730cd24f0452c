"""Workers: the running clients, and the rescue of the jobs of a silent one."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from riverui.domain.jobs import JobState
from riverui.features.heartbeats.section import fleet
from riverui.features.heartbeats.section.rescue import carry_out
from riverui.features.heartbeats.store import ClientRow, HeldJob, SeenClient
from riverui.features.heartbeats.verbs import ClientRescue
from riverui.web.api import requests, serializers
from riverui.web.api.endpoints import Description, Endpoint, in_path
from riverui.web.api.models import EXAMPLE_TIME, Count, Id, Model, NeededText, Time
from riverui.web.http.context import dashboard

_GROUP = "Workers"
_EXAMPLE_ID = "web-1_2026_11_21T07_00_00_000000"


class ClientQueue(Model, frozen=True, kw_only=True):
    """A queue as worked by one client."""

    name: str
    max_workers: Count
    slots_taken: Count


class ClientJob(Model, frozen=True, kw_only=True):
    """A running job of a client."""

    id: Id
    kind: str
    queue: str
    attempted_at: Time | None

    @classmethod
    def from_job(cls, job: HeldJob) -> Self:
        """Return a held job."""
        return cls(
            id=job.id,
            kind=job.kind,
            queue=job.queue,
            attempted_at=serializers.optional_instant(job.attempted_at),
        )


class Client(Model, frozen=True, kw_only=True):
    """A client that sends heartbeats, or did until it was declared dead."""

    id: Annotated[str, Meta(description="As in `attempted_by`.")]
    status: Annotated[
        Literal["alive", "silent", "dead"],
        Meta(description="Silent: a heartbeat was missed. Dead: declared dead, for good."),
    ]
    host: str
    pid: Count
    language: str
    version: str
    release: str
    started_at: Time
    heartbeat_at: Time
    heartbeat_interval: Annotated[float, Meta(description="Seconds between two heartbeats.")]
    silent_for: Annotated[float, Meta(description="Seconds, by the database's clock.")]
    dead_at: Annotated[Time, Meta(description="When it is, or was, to be declared dead.")]
    queues: list[ClientQueue]
    running: Annotated[Count, Meta(description="Running jobs, as of its last heartbeat.")]
    jobs: Annotated[list[ClientJob], Meta(description="The longest running of its jobs, up to 5.")]
    loop_lag: Annotated[
        float | None, Meta(description="Seconds that its event loop took to answer.")
    ]
    memory: Annotated[Count | None, Meta(description="Bytes.")]
    declared_dead_by: str | None
    rescued_at: Time | None
    rescued: Annotated[Count, Meta(description="Jobs that were rescued from it.")]

    @classmethod
    def from_row(cls, row: ClientRow, seen: SeenClient | None) -> Self:
        """Return a client's row, with the jobs that it holds."""
        dead = row.declared_dead_at is not None
        return cls(
            id=row.id,
            status="dead" if dead else "silent" if row.silent else "alive",
            host=row.host,
            pid=row.pid,
            language=row.language,
            version=row.version,
            release=row.release,
            started_at=serializers.instant(row.started_at),
            heartbeat_at=serializers.instant(row.heartbeat_at),
            heartbeat_interval=row.heartbeat_interval.total_seconds(),
            silent_for=row.silence.total_seconds(),
            dead_at=serializers.instant(row.declared_dead_at or row.dead_at),
            queues=[
                ClientQueue(name=name, max_workers=max(most, 0), slots_taken=max(taken, 0))
                for name, (most, taken) in sorted(row.queues.items())
            ],
            running=row.running,
            jobs=[] if dead or seen is None else [ClientJob.from_job(job) for job in seen.held],
            loop_lag=row.loop_lag,
            memory=row.memory,
            declared_dead_by=row.declared_dead_by,
            rescued_at=serializers.optional_instant(row.rescued_at),
            rescued=row.rescued,
        )

    @classmethod
    def example(cls) -> Self:
        """Return one that works two jobs."""
        return cls(
            id=_EXAMPLE_ID,
            status="alive",
            host="web-1",
            pid=4711,
            language="Python 3.13.1",
            version="1.0.0",
            release="v1.4.2",
            started_at="2026-11-21T07:00:00Z",
            heartbeat_at=EXAMPLE_TIME,
            heartbeat_interval=20.0,
            silent_for=7.5,
            dead_at="2026-11-21T09:01:10Z",
            queues=[ClientQueue(name="default", max_workers=10, slots_taken=1)],
            running=1,
            jobs=[ClientJob(id=7, kind="mail_send", queue="default", attempted_at=EXAMPLE_TIME)],
            loop_lag=0.002,
            memory=94_000_000,
            declared_dead_by=None,
            rescued_at=None,
            rescued=0,
        )


class Seen(Model, frozen=True, kw_only=True):
    """A client known only from `attempted_by`: another language's, or one without the table."""

    id: str
    seen_at: Annotated[Time | None, Meta(description="When it took a job last, as far as known.")]
    queues: list[str]
    running: Annotated[Count, Meta(description="Jobs that it holds, among 2,000 running ones.")]
    jobs: list[ClientJob]

    @classmethod
    def from_client(cls, seen: SeenClient) -> Self:
        """Return a client known only from its jobs."""
        return cls(
            id=seen.id,
            seen_at=serializers.optional_instant(seen.seen_at),
            queues=list(seen.queues),
            running=seen.running,
            jobs=[ClientJob.from_job(job) for job in seen.held],
        )


class Clients(Model, frozen=True, kw_only=True):
    """The clients of the database."""

    data: list[Client]
    seen: list[Seen]
    heartbeats: Annotated[
        bool, Meta(description="Whether the database has the table of heartbeats.")
    ]

    @classmethod
    def example(cls) -> Self:
        """Return one client of ours and one of Go's."""
        go = Seen(
            id="go-1_2026_11_21T07_00_00_000000",
            seen_at=EXAMPLE_TIME,
            queues=["default"],
            running=0,
            jobs=[],
        )
        return cls(data=[Client.example()], seen=[go], heartbeats=True)


class Rescue(Model, frozen=True, kw_only=True):
    """What became of the jobs of a client that was declared dead."""

    client: str
    retryable: Count
    discarded: Count
    cancelled: Count

    @classmethod
    def from_rescue(cls, rescued: ClientRescue) -> Self:
        """Return how many jobs are in which state."""
        return cls(
            client=rescued.client.life.id,
            retryable=rescued.states.get(JobState.RETRYABLE, 0),
            discarded=rescued.states.get(JobState.DISCARDED, 0),
            cancelled=rescued.states.get(JobState.CANCELLED, 0),
        )

    @classmethod
    def example(cls) -> Self:
        """Return the rescue of seven jobs."""
        return cls(client=_EXAMPLE_ID, retryable=6, discarded=1, cancelled=0)


async def index(request: Request) -> Response:
    """Return the known clients."""
    found = await fleet.read(dashboard(request).driver)
    if found.problem is not None:
        raise found.problem
    rows = (*found.living, *found.dead)
    return serializers.reply(
        Clients(
            data=[Client.from_row(row, found.holding(row)) for row in rows],
            seen=[Seen.from_client(client) for client in found.seen],
            heartbeats=found.has_table,
        )
    )


async def rescue(request: Request) -> Response:
    """Declare a silent client dead, rescue its jobs, and return what became of them."""
    await requests.payload(request)
    return serializers.reply(
        Rescue.from_rescue(await carry_out(request, request.path_params["id"]))
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/workers",
        "api.workers.index",
        "queues.read",
        index,
        Description(
            group=_GROUP,
            summary="The running clients, up to 500: silent ones first, then the others, then those"
            " declared dead within a day; and those known only from `attempted_by`.",
            answer=Clients,
            extension=True,
        ),
    ),
    Endpoint(
        "POST",
        "/api/workers/{id:river_rest}/rescue",
        "api.workers.rescue",
        "workers.rescue",
        rescue,
        Description(
            group=_GROUP,
            summary="Declares a silent client dead without waiting any longer, and rescues its"
            " jobs.",
            answer=Rescue,
            parameters=(in_path("id", "The client's id.", NeededText),),
            fails=(404, 413),
            extension=True,
        ),
    ),
)
"""The section's part of the API."""
