"""Reads what holds one waiting job back: its queue's limits, rate, fair shares and batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from riverui.domain.explain.facts import KindReports, LimitHold, QueueSlots, RateHold, ShareHold
from riverui.domain.jobs import JobShowRow
from riverui.domain.json import read_object
from riverui.domain.partitions import Partition
from riverui.domain.queues import BatchTerms, QueueRow, QueueTerms
from riverui.features.concurrency import verbs as concurrency
from riverui.features.concurrency.store import LimitStore
from riverui.features.fair_shares import domain as fair_shares
from riverui.features.heartbeats.store import ClientRow, ClientStore
from riverui.features.rate_limits import domain as rate_limits
from riverui.features.rate_limits.domain import RateLimit
from riverui.features.rate_limits.store import RateStore
from riverui.storage.interface import SQL, Executor
from riverui.storage.stores.candidates import CandidateStore
from riverui.storage.stores.explanations import ExplanationStore
from riverui.storage.tables import installed

_CLIENTS = 200
"""Clients whose slots are added up; with more, the sum is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueClients:
    """The clients that give signs of life and work one queue."""

    rows: Sequence[ClientRow] = ()
    complete: bool = True
    """Whether all clients were looked at."""
    gone: frozenset[str] = frozenset()
    """Clients that stopped giving signs of life, of any queue."""

    def kind(self, kind: str) -> KindReports | None:
        """Return what they report of a kind; None if there are none, or not all were read."""
        if not self.rows or not self.complete:
            return None
        return KindReports(
            working=[row.id for row in self.rows if row.kinds and kind in row.kinds],
            others=frozenset(
                row.id for row in self.rows if row.kinds is not None and kind not in row.kinds
            ),
            gone=self.gone,
            complete=all(row.kinds is not None for row in self.rows),
        )

    def slots(self, queue: str) -> QueueSlots | None:
        """Return what they report of their slots; None if there are none, or not all were read."""
        if not self.rows or not self.complete:
            return None
        return QueueSlots(
            clients=frozenset(row.id for row in self.rows),
            most=sum(row.queues[queue][0] for row in self.rows),
            taken=sum(row.queues[queue][1] for row in self.rows),
        )

    def terms(self, queue: str) -> QueueTerms:
        """Return the rules by which most of them work it."""
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


async def queue_clients(executor: Executor, queue: str) -> QueueClients:
    """Return the clients that work a queue and give signs of life; none without their table."""
    if SQL not in executor.capabilities:
        return QueueClients()
    if not await installed(executor):
        return QueueClients()
    rows = await ClientStore(executor).client_list(limit=_CLIENTS)
    live = [row for row in rows if not row.silent and not row.declared_dead_at]
    return QueueClients(
        rows=[row for row in live if queue in row.queues],
        complete=len(rows) < _CLIENTS,
        gone=frozenset(row.id for row in rows) - {row.id for row in live},
    )


async def limit_hold(
    executor: Executor, job: JobShowRow, queue: QueueRow, now: datetime
) -> LimitHold | None:
    """Return how the limits of jobs at once stand for a job; None if there are none."""
    if SQL not in executor.capabilities:
        return None
    found = await concurrency.read(executor, queue, now=now, limit=1)
    limits = found.effective
    if limits is None or not limits.limits:
        return None
    key = await _key(executor, job.id, limits.partition)
    row, here = None, {}
    if not found.missing:
        row = await LimitStore(executor).limit_get(queue.name, key)
        for producer in await concurrency.limited(executor, queue, now=now):
            running = read_object(producer.running).get(key, 0)
            here[producer.client_id] = running if isinstance(running, int) else 0
    jobs = await ExplanationStore(executor).job_holder_list(queue.name, limits.partition, key)
    return LimitHold(
        limits=limits,
        override=found.override is not None,
        key=key,
        taken=row.taken if row else 0,
        clients=row.clients if row else {},
        here=here,
        jobs=jobs,
        missing=found.missing,
    )


async def rate_hold(
    executor: Executor, job: JobShowRow, queue: QueueRow, terms: QueueTerms
) -> RateHold | None:
    """Return how the bucket of a job stands; None if its queue is not known to have a rate
    limit.
    """
    found = None if terms.rate_limit is None else rate_limits.read_terms(terms.rate_limit)
    if found is None or SQL not in executor.capabilities:
        return None
    if not await installed(executor):
        return None
    configured, weighs = found
    limit: RateLimit = configured.overridden(queue.metadata.text)
    key = await _key(executor, job.id, limit.partition)
    bucket = await RateStore(executor).rate_get(queue.name, key)
    # If the limit has changed since, the tokens are those that were there.
    tokens = limit.rate.burst if bucket is None else min(bucket.tokens, limit.rate.burst)
    keys = {by: await _key(executor, job.id, by) for by in limit.weighs_args}
    return RateHold(
        limit=limit,
        override=limit != configured,
        key=key,
        tokens=tokens,
        weight=limit.weight_of(job.kind, keys) if weighs else None,
    )


async def share_hold(executor: Executor, job: JobShowRow, terms: QueueTerms) -> ShareHold | None:
    """Return whose turn comes before a job's; None if its queue is not known to have fair
    shares.
    """
    found = None if terms.fair_share is None else fair_shares.read_terms(terms.fair_share)
    if found is None or SQL not in executor.capabilities:
        return None
    share, known = found
    line = await ExplanationStore(executor).job_share_get(
        job.queue,
        share.partition,
        priority=job.priority,
        scheduled_at=job.scheduled_at,
        id=job.id,
    )
    indexes = await CandidateStore(executor).partition_index_list()
    return ShareHold(
        share=share,
        known=known,
        line=line,
        indexed=share.partition.index_name in indexes,
    )


async def _key(executor: Executor, job_id: int, partition: Partition) -> str:
    """Return a job's key in a partition; empty if the job was deleted."""
    if partition.whole:
        return ""
    return (await LimitStore(executor).job_key_list([job_id], partition)).get(job_id, "")
