"""Rate limits of queues: read and override them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from riverui.actions import queues
from riverui.actions.queue_clients import QueueClients
from riverui.domain.queues import QueueRow
from riverui.errors import ConfigError
from riverui.features.rate_limits.buckets import RateRow
from riverui.features.rate_limits.domain import (
    OVERRIDE,
    RateLimit,
    RateOverride,
    rate_override_of,
    read_terms,
)
from riverui.features.rate_limits.store import RateStore
from riverui.storage.interface import Driver, Executor


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueRates:
    """The rate limit of one queue, and the state of its buckets."""

    configured: RateLimit | None
    """The limit that most of its clients were started with, as far as they report it."""
    disagree: bool
    """Whether clients were started with different limits."""
    override: RateOverride | None
    """The override in the database."""
    problem: str
    """Why the override does not apply, in words; empty if it does, or there is none."""
    buckets: Sequence[RateRow]
    """Emptiest first."""

    @property
    def effective(self) -> RateLimit | None:
        """Return the limit that applies; None if no client is known to have one."""
        if self.configured is None or self.override is None:
            return self.configured
        try:
            return self.override.on(self.configured)
        except ConfigError:
            return self.configured


async def read(
    executor: Executor, queue: QueueRow, clients: QueueClients, *, limit: int
) -> QueueRates:
    """Return a queue's rate limit and up to `limit` of its buckets."""
    override, problem = None, ""
    known = read_terms(clients.terms(queue.name).rate_limit or {})
    configured = None if known is None else known[0]
    try:
        override = rate_override_of(queue.metadata)
        if override is not None and configured is not None:
            override.on(configured)
    except ConfigError as error:
        problem = str(error)
    reported = (row.terms[queue.name] for row in clients.rows if queue.name in row.terms)
    limits = {repr(found) for terms in reported if (found := read_terms(terms.rate_limit or {}))}
    buckets: Sequence[RateRow] = ()
    if await RateStore.installed(executor):
        buckets = await RateStore(executor).rate_list(queue.name, limit=limit)
    return QueueRates(
        configured=configured,
        disagree=len(limits) > 1,
        override=override,
        problem=problem,
        buckets=buckets,
    )


async def set_override(
    driver: Driver, name: str, limit: RateOverride, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Override the numbers of the rate limit of a queue's clients until the override is removed;
    return the queue's row. Raise NotFound if it has none.

    The rest of its metadata is kept. Clients are notified.
    """
    return await queues.set_metadata_key(
        driver, name, OVERRIDE, limit.as_json(), time_limit=time_limit
    )


async def remove_override(
    driver: Driver, name: str, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Remove the override of a queue's rate limit; return the queue's row. Raise NotFound if it has
    none.
    """
    return await queues.set_metadata_key(driver, name, OVERRIDE, None, time_limit=time_limit)
