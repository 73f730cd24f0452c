"""The outbox by hand: a table, and a thread that delivers its rows at least once."""

from __future__ import annotations

import logging
import threading
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from psycopg_pool import ConnectionPool

from examples.outbox.knowledge import KnowledgeStore
from examples.outbox.observations import Connection, bodies

log = logging.getLogger(__name__)

Pool: TypeAlias = ConnectionPool[Any]

POISON = "POISON"
"""The value of `claimed_by` in a row that failed too often."""


@dataclass(frozen=True, kw_only=True)
class RelayOptions:
    """How a relay works."""

    batch_size: int = 50
    claim: timedelta = timedelta(minutes=1)
    """For how long a claimed row is the relay's own. Longer than a batch takes: once it is over,
    another relay delivers the row too.
    """
    max_attempts: int = 10
    poll_interval: timedelta = timedelta(milliseconds=500)


@dataclass(frozen=True)
class Drained:
    """What one pass did."""

    claimed: int = 0
    delivered: int = 0
    retried: int = 0
    poisoned: int = 0


def publish(connection: Connection, scope: str) -> None:
    """Write a row of the outbox: it is there once the transaction commits, and only then."""
    connection.execute("insert into observations_outbox (scope) values (%s)", [scope])


class OutboxRelay:
    """Move what is published into the knowledge store. Any number of relays share one outbox."""

    def __init__(
        self, pool: Pool, knowledge: KnowledgeStore, options: RelayOptions | None = None
    ) -> None:
        self.name = f"relay-{uuid.uuid4()}"
        self._pool = pool
        self._knowledge = knowledge
        self._options = options or RelayOptions()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def drain_once(self) -> Drained:
        """Claim a batch, deliver each row, and settle it; return what was done.

        A relay that dies in between leaves its claims, and the rows are delivered again once these
        are over.
        """
        counts = {"delivered": 0, "retried": 0, "poisoned": 0}
        claimed = self._claim()
        for row_id, scope in claimed:
            counts[self._deliver(row_id, scope)] += 1
        return Drained(len(claimed), **counts)

    def start(self) -> None:
        """Drain in a thread of its own until `stop`; a second call changes nothing."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def stop(self, timeout: timedelta = timedelta(seconds=5)) -> None:
        """End after the current batch, and wait for that; a second call changes nothing."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout.total_seconds())
            self._thread = None

    def close(self) -> None:
        """Stop; the pool is the caller's."""
        self.stop()

    def __enter__(self) -> OutboxRelay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        stopping, pause = self._stopping, self._options.poll_interval.total_seconds()
        while not stopping.is_set():
            try:
                drained = self.drain_once()
            except Exception:
                log.exception("The outbox could not be drained")
                drained = Drained()
            if drained.claimed < self._options.batch_size:
                stopping.wait(pause)

    def _claim(self) -> list[tuple[int, str]]:
        with self._pool.connection() as connection:
            rows = connection.execute(
                """
                with due as materialized (
                    select id
                    from observations_outbox
                    where next_attempt_at <= now()
                        and claimed_by is distinct from 'POISON'
                        and (claimed_until is null or claimed_until <= now())
                    order by next_attempt_at
                    limit %s
                    for update skip locked
                )
                update observations_outbox as o
                set claimed_by = %s, claimed_until = now() + %s
                from due
                where o.id = due.id
                returning o.id, o.scope
                """,
                [self._options.batch_size, self.name, self._options.claim],
            ).fetchall()
        return sorted(rows)

    def _deliver(self, id: int, scope: str) -> str:
        try:
            with self._pool.connection() as connection:
                documents = bodies(connection, scope)
            # No connection is held while the store takes its time.
            self._knowledge.reindex(scope, documents)
        except Exception as error:
            log.warning("Row %s was not delivered", id, exc_info=True)
            return self._settle_failed(id, repr(error)[:1_000])
        with self._pool.connection() as connection:
            connection.execute(
                "delete from observations_outbox where id = %s and claimed_by = %s", [id, self.name]
            )
        return "delivered"

    def _settle_failed(self, id: int, error: str) -> str:
        """Retry the row after min(60, 2^attempt) seconds, or never again."""
        with self._pool.connection() as connection:
            row = connection.execute(
                """
                with failed as (
                    select id, attempt + 1 as attempt, attempt + 1 >= %(most)s as poisoned
                    from observations_outbox
                    where id = %(id)s and claimed_by = %(name)s
                )
                update observations_outbox as o
                set attempt = failed.attempt,
                    claimed_by = case when poisoned then 'POISON' end,
                    claimed_until = case when poisoned then 'infinity'::timestamptz end,
                    next_attempt_at = now() + make_interval(
                        secs => least(60, 2 ^ least(failed.attempt, 6))
                    ),
                    error = %(error)s
                from failed
                where o.id = failed.id
                returning poisoned
                """,
                {
                    "most": self._options.max_attempts,
                    "error": error,
                    "id": id,
                    "name": self.name,
                },
            ).fetchone()
        return "poisoned" if row == (True,) else "retried"
