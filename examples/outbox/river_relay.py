"""The same outbox on River: a published change is a job, and its worker is the relay."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from psycopg_pool import ConnectionPool

from examples.outbox.knowledge import KnowledgeStore
from examples.outbox.observations import Connection, bodies
from riverui import (
    Client,
    ClientConfig,
    Job,
    QueueConfig,
    Retry,
    SyncClient,
    Worker,
    Workers,
    exponential,
)

river = SyncClient()  # its jobs are inserted in transactions of others: it needs no address


@dataclass(frozen=True)
class Reindex:
    """Bring a scope's observations into the knowledge store."""

    kind: ClassVar[str] = "reindex"
    # As the plain relay waits: min(60, 2^attempt) seconds. After ten failures the job is discarded,
    # and stays to be looked at.
    retry: ClassVar[Retry] = Retry(
        max_attempts=10,
        wait=exponential(2, first=timedelta(seconds=2), jitter=0, max=timedelta(minutes=1)),
    )

    scope: str


def publish(connection: Connection, scope: str) -> None:
    """Insert a job: it is there once the transaction commits, and only then."""
    river.insert_tx(connection, Reindex(scope))


class ReindexWorker(Worker[Reindex]):
    """Deliver at least once."""

    def __init__(self, pool: ConnectionPool[Any], knowledge: KnowledgeStore) -> None:
        self._pool = pool
        self._knowledge = knowledge

    def work(self, job: Job[Reindex]) -> None:
        """Read the scope as it is now, and replace it."""
        with self._pool.connection() as connection:
            documents = bodies(connection, job.args.scope)
        self._knowledge.reindex(job.args.scope, documents)


def new_client(url: str, pool: ConnectionPool[Any], knowledge: KnowledgeStore) -> Client:
    """Return a client that delivers; `async with` starts it, and at the end it stops."""
    workers = Workers()
    workers.add(ReindexWorker(pool, knowledge))
    return Client(
        url, ClientConfig(queues={"default": QueueConfig(max_workers=10)}, workers=workers)
    )
