"""Concurrency limits, as shown to and overridden by operators."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from riverui.actions import queues
from riverui.domain.json import read_object
from riverui.domain.queues import ProducerRow, QueueRow
from riverui.errors import ConfigError
from riverui.features.concurrency.domain import METADATA_KEY, ConcurrencyConfig, override_of
from riverui.features.concurrency.store import LimitedProducer, LimitRow, LimitStore
from riverui.storage.interface import Driver, Executor
from riverui.storage.tables import MISSING

_MAX_PRODUCERS = 500
"""Clients of one queue that are read: more than work any."""
_MAX_ROWS = 10_000
"""Keys of a queue that are read to find the fullest: some 10 ms."""
_STALE = timedelta(minutes=5)
"""Time since a client's last report after which it counts as stopped: River's figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueConcurrency:
    """The limits of one queue, and the jobs they hold back."""

    override: ConcurrencyConfig | None
    """Limits set for the queue, which replace those its clients were started with."""
    problem: str
    """Why the limits set for the queue cannot be read, so that the clients' own apply;
    else empty.
    """
    configured: Mapping[ConcurrencyConfig, int]
    """Limits that clients apply now → how many clients do; should be one."""
    partitions: Sequence[LimitRow]
    """The fullest keys under a global limit, by running jobs."""
    more: bool
    """Whether there are more keys than those."""
    missing: str
    """The migration that global limits need, as part of a sentence; empty if it is there."""

    @property
    def effective(self) -> ConcurrencyConfig | None:
        """Return the limits in effect: the override, or what most clients apply; None without
        limits.
        """
        if self.override is not None:
            return self.override
        limits = [found for found in self.configured if found.limits]
        return max(limits, key=lambda found: self.configured[found], default=None)


async def read(
    executor: Executor, queue: QueueRow, *, now: datetime, limit: int = 100
) -> QueueConcurrency:
    """Return a queue's limits and up to `limit` of its keys."""
    override, problem = None, ""
    try:
        override = override_of(queue.metadata)
    except ConfigError as error:
        problem = str(error)
    missing = await lacks(executor)
    producers: Sequence[LimitedProducer] = ()
    partitions: Sequence[LimitRow] = ()
    if not missing:
        limits = LimitStore(executor)
        partitions = await limits.limit_list(queue.name, cap=_MAX_ROWS, limit=limit + 1)
        producers = await limited(executor, queue, now=now)
    return QueueConcurrency(
        override=override,
        problem=problem,
        configured=Counter(
            found for producer in producers if (found := _limits(producer)) is not None
        ),
        partitions=partitions[:limit],
        more=len(partitions) > limit,
        missing=missing,
    )


async def lacks(executor: Executor) -> str:
    """Return the migration that global limits need, as part of a sentence; empty if it is there."""
    return "" if await LimitStore.installed(executor) else MISSING


async def set_override(
    driver: Driver, name: str, limits: ConcurrencyConfig, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Set limits for a queue, which replace those of its clients until removed; return the queue's
    row. Raise NotFound if there is no such queue.

    Other metadata of the queue is kept. Clients are notified.
    """
    return await queues.set_metadata_key(
        driver, name, METADATA_KEY, limits.as_json(), time_limit=time_limit
    )


async def remove_override(
    driver: Driver, name: str, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Remove the limits set for a queue; return the queue's row. Raise NotFound if there is no such
    queue.
    """
    return await queues.set_metadata_key(driver, name, METADATA_KEY, None, time_limit=time_limit)


async def limited(executor: Executor, queue: QueueRow, *, now: datetime) -> list[LimitedProducer]:
    """Return the clients that have recently reported how they work a limited queue."""
    found = await LimitStore(executor).limited_producer_list(
        queue.name, updated_after=now - _STALE, limit=_MAX_PRODUCERS
    )
    return list(found)


async def producers(executor: Executor, queue: QueueRow, *, now: datetime) -> Sequence[ProducerRow]:
    """Return the clients that work a limited queue in the shape of River Pro's, by id; empty
    without the table.
    """
    if await lacks(executor):
        return []
    found = await limited(executor, queue, now=now)
    return [
        ProducerRow(
            id=row.id,
            client_id=row.client_id,
            created_at=row.created_at,
            max_workers=row.max_workers,
            metadata=json.dumps(
                {
                    "concurrency": {
                        **read_object(row.concurrency),
                        "running": read_object(row.running),
                    }
                }
            ),
            paused_at=queue.paused_at,
            queue_name=row.queue,
            updated_at=row.updated_at,
        )
        for row in found
    ]


def _limits(producer: LimitedProducer) -> ConcurrencyConfig | None:
    """Return the limits that a client reported; None if they are invalid."""
    try:
        return ConcurrencyConfig.read(read_object(producer.concurrency))
    except ConfigError:
        return None
