"""Reads what holds one waiting job back: its queue's limits, rate and turns, and how its batch is
gathered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from riverui.domain.job_facts import KindReports, QueueSlots, Unread
from riverui.domain.job_holds import LimitHold, RateHold, ShareHold
from riverui.domain.jobs import JobShowRow
from riverui.domain.json import read_object
from riverui.domain.partitions import Partition
from riverui.domain.queues import BatchTerms, QueueRow, QueueTerms
from riverui.errors import DatabaseError
from riverui.features.concurrency import verbs as concurrency
from riverui.features.concurrency.store import LimitStore
from riverui.features.heartbeats.store import CLIENT_TABLE, ClientRow, ClientStore
from riverui.features.rate_limits.domain import RateLimit
from riverui.features.rate_limits.store import RATE_TABLE, RateStore
from riverui.storage.interface import CANDIDATES, EXPLANATIONS, OWN_TABLES, Driver, Executor

_CLIENTS = 200
"""Clients whose slots are added up; of more, they are not told."""

_Hold = TypeVar("_Hold")


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueClients:
    """The clients that give signs of life and work one queue."""

    rows: Sequence[ClientRow] = ()
    complete: bool = True
    """Whether all clients were looked at."""
    gone: frozenset[str] = frozenset()
    """Clients that stopped giving signs of life, of any queue."""

    def kind(self, kind: str) -> KindReports | None:
        """Return what they report of a kind; None where there are none, or not all were seen."""
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
        """Return what they tell of their slots; None where none does, or not all were seen."""
        if not self.rows or not self.complete:
            return None
        return QueueSlots(
            clients=frozenset(row.id for row in self.rows),
            most=sum(row.queues[queue][0] for row in self.rows),
            taken=sum(row.queues[queue][1] for row in self.rows),
        )

    def terms(self, queue: str) -> QueueTerms:
        """Return by which rules most of them work it."""
        told = [row.terms[queue] for row in self.rows if queue in row.terms]
        if not told:
            return QueueTerms()
        by_words = {repr(terms): terms for terms in told}
        return by_words[Counter(map(repr, told)).most_common(1)[0][0]]

    def batch(self, job: JobShowRow) -> BatchTerms | None:
        """Return how a running job's client gathers jobs of its kind; None where it works them one
        by one, or does not tell.
        """
        by = job.attempted_by[-1] if job.attempted_by else ""
        for row in self.rows:
            if row.id == by and job.queue in row.terms:
                return row.terms[job.queue].batches.get(job.kind)
        return None


async def queue_clients(driver: Driver, queue: str) -> QueueClients:
    """Return the clients at work on a queue that give signs of life; none where these cannot be
    read.
    """
    if OWN_TABLES not in driver.capabilities:
        return QueueClients()
    try:
        async with driver.reading() as executor:
            if not await CLIENT_TABLE.exists(executor):
                return QueueClients()
            rows = await ClientStore(executor).client_list(limit=_CLIENTS)
    except DatabaseError:
        return QueueClients()
    live = [row for row in rows if not row.silent and not row.declared_dead_at]
    return QueueClients(
        rows=[row for row in live if queue in row.queues],
        complete=len(rows) < _CLIENTS,
        gone=frozenset(row.id for row in rows) - {row.id for row in live},
    )


async def limit_hold(
    driver: Driver, job: JobShowRow, queue: QueueRow, now: datetime
) -> LimitHold | Unread | None:
    """Return how the limits of jobs at once stand for a job; None where there are none."""

    async def read(executor: Executor) -> LimitHold | None:
        found = await concurrency.read(executor, queue, now=now, limit=1)
        limits = found.effective
        if limits is None or not limits.limits:
            return None
        key = await _key(executor, job.id, limits.partition)
        row, here = None, {}
        if not found.missing:
            own = LimitStore(executor)
            row = await own.limit_get(queue.name, key)
            producers = await concurrency.limited(executor, queue, now=now)
            for producer in producers:
                running = read_object(producer.running).get(key, 0)
                here[producer.client_id] = running if isinstance(running, int) else 0
        jobs = await EXPLANATIONS.on(executor).job_holder_list(queue.name, limits.partition, key)
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

    if not {EXPLANATIONS, OWN_TABLES}.issubset(driver.capabilities):
        return None
    return await _hold(driver, read)


async def rate_hold(
    driver: Driver, job: JobShowRow, queue: QueueRow, terms: QueueTerms
) -> RateHold | Unread | None:
    """Return how the bucket of a job stands; None where no rate limit is known of its queue."""
    configured = terms.rate_limit
    if configured is None or OWN_TABLES not in driver.capabilities:
        return None
    limit: RateLimit = configured.overridden(queue.metadata.text)

    async def read(executor: Executor) -> RateHold | None:
        if not await RATE_TABLE.exists(executor):
            return None
        key = await _key(executor, job.id, limit.partition)
        bucket = await RateStore(executor).rate_get(queue.name, key)
        # Where the limit is another one by now, the tokens are those that were there.
        tokens = limit.rate.burst if bucket is None else min(bucket.tokens, limit.rate.burst)
        keys = {by: await _key(executor, job.id, by) for by in limit.weighs_args}
        return RateHold(
            limit=limit,
            override=limit != configured,
            key=key,
            tokens=tokens,
            pace=0.0 if bucket is None else bucket.pace,
            weight=limit.weight_of(job.kind, keys) if terms.weighs else None,
        )

    return await _hold(driver, read)


async def share_hold(
    driver: Driver, job: JobShowRow, terms: QueueTerms
) -> ShareHold | Unread | None:
    """Return whose turn comes before a job's; None where its queue is not known to be dealt."""
    share = terms.fair_share
    if share is None or not {EXPLANATIONS, CANDIDATES}.issubset(driver.capabilities):
        return None

    async def read(executor: Executor) -> ShareHold:
        line = await EXPLANATIONS.on(executor).job_share_get(
            job.queue,
            share.partition,
            priority=job.priority,
            scheduled_at=job.scheduled_at,
            id=job.id,
        )
        indexes = await CANDIDATES.on(executor).partition_index_list()
        return ShareHold(
            share=share,
            known=terms.shares,
            line=line,
            indexed=share.partition.index_name in indexes,
        )

    return await _hold(driver, read)


async def _key(executor: Executor, job_id: int, partition: Partition) -> str:
    """Return a job's key in a partition; empty where the job is gone."""
    if partition.whole:
        return ""
    return (await LimitStore(executor).job_key_list([job_id], partition)).get(job_id, "")


async def _hold(driver: Driver, read: Callable[[Executor], Awaitable[_Hold]]) -> _Hold | Unread:
    try:
        async with driver.reading() as executor:
            return await read(executor)
    except DatabaseError as error:
        return Unread(why=error.public)
