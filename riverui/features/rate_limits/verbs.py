"""Rate limits of queues, as a person looks at them and overrides them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from riverui.actions.holds import QueueClients
from riverui.domain.queues import QueueRow
from riverui.errors import ConfigError
from riverui.features.rate_limits.buckets import RateRow
from riverui.features.rate_limits.domain import RateLimit, RateOverride, rate_override_of
from riverui.features.rate_limits.store import RateStore
from riverui.storage.interface import Driver, Executor
from riverui.storage.tables import installed


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueRates:
    """How fast jobs of one queue may begin, and how its buckets stand."""

    configured: RateLimit | None
    """What most of its clients were started with, as far as they tell."""
    disagree: bool
    """Whether clients were started with different limits."""
    override: RateOverride | None
    """What is set in the database."""
    problem: str
    """Why what is set there does not count, in words; empty where it does, or nothing is set."""
    buckets: Sequence[RateRow]
    """The emptiest first."""

    @property
    def effective(self) -> RateLimit | None:
        """Return what counts; None where no client is known to have a limit."""
        if self.configured is None or self.override is None:
            return self.configured
        try:
            return self.override.on(self.configured)
        except ConfigError:
            return self.configured


async def read(
    executor: Executor, queue: QueueRow, clients: QueueClients, *, limit: int
) -> QueueRates:
    """Return a queue's rates and up to `limit` of its buckets."""
    override, problem = None, ""
    configured = clients.terms(queue.name).rate_limit
    try:
        override = rate_override_of(queue.metadata)
        if override is not None and configured is not None:
            override.on(configured)
    except ConfigError as error:
        problem = str(error)
    limits: Mapping[str, int] = Counter(
        repr(terms.rate_limit)
        for row in clients.rows
        if (terms := row.terms.get(queue.name)) and terms.rate_limit
    )
    buckets: Sequence[RateRow] = ()
    if await installed(executor):
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
    """Have the clients of a queue count by these numbers instead of those of their own rate limit,
    until that is removed; return the queue's row. NotFound where it has none.

    All else in its metadata stays. Clients are told.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_set_rate_limit(name, limit.as_json())


async def remove_override(
    driver: Driver, name: str, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Have the clients of a queue count by their own numbers again; return the queue's row.
    NotFound where it has none.
    """
    async with driver.transaction(timeout=time_limit) as transaction:
        return await transaction.queue_set_rate_limit(name, None)
