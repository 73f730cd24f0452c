"""Read what the clients of one queue report about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from riverui.domain.explain.facts import KindReports, QueueSlots
from riverui.domain.jobs import JobShowRow
from riverui.domain.queues import BatchTerms, QueueTerms
from riverui.features.heartbeats.store import ClientRow, ClientStore
from riverui.storage.interface import Executor

_CLIENTS = 200
"""Most clients whose slots are added up; with more, the sum is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueClients:
    """The clients of one queue that send heartbeats."""

    rows: Sequence[ClientRow] = ()
    complete: bool = True
    """Whether all clients were read."""
    stopped: frozenset[str] = frozenset()
    """Clients of any queue whose heartbeats stopped."""

    def kind(self, kind: str) -> KindReports | None:
        """Return what they report of a kind; None if there are none, or not all were read."""
        if not self.rows or not self.complete:
            return None
        return KindReports(
            working=[row.id for row in self.rows if row.kinds and kind in row.kinds],
            others=frozenset(
                row.id for row in self.rows if row.kinds is not None and kind not in row.kinds
            ),
            stopped=self.stopped,
            complete=all(row.kinds is not None for row in self.rows),
        )

    def slots(self, queue: str) -> QueueSlots | None:
        """Return what they report of their slots; None if there are none, or not all were read."""
        rows = [row for row in self.rows if queue in row.queues]
        if not rows or not self.complete:
            return None
        return QueueSlots(
            clients=frozenset(row.id for row in rows),
            most=sum(row.queues[queue][0] for row in rows),
            taken=sum(row.queues[queue][1] for row in rows),
        )

    def terms(self, queue: str) -> QueueTerms:
        """Return the queue's rules, as most of these clients report them."""
        reported = [row.terms[queue] for row in self.rows if queue in row.terms]
        if not reported:
            return QueueTerms()
        by_words = {repr(terms): terms for terms in reported}
        return by_words[Counter(map(repr, reported)).most_common(1)[0][0]]

    def batch(self, job: JobShowRow) -> BatchTerms | None:
        """Return how a running job's client batches jobs of its kind; None if it works them one by
        one, or does not report it.
        """
        by = job.attempted_by[-1] if job.attempted_by else ""
        for row in self.rows:
            if row.id == by and job.queue in row.terms:
                return row.terms[job.queue].batches.get(job.kind)
        return None


async def queue_clients(executor: Executor, queue: str | None = None) -> QueueClients:
    """Return the clients of a queue, or of any, that send heartbeats; none without their table."""
    if not await ClientStore.installed(executor):
        return QueueClients()
    rows = await ClientStore(executor).client_list(limit=_CLIENTS)
    live = [row for row in rows if not row.silent and not row.declared_dead_at]
    return QueueClients(
        rows=[row for row in live if queue is None or queue in row.queues],
        complete=len(rows) < _CLIENTS,
        stopped=frozenset(row.id for row in rows) - {row.id for row in live},
    )
