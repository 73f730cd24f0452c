"""Rate limits of queues, as a person looks at them and overrides them."""

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
    return await queues.set_metadata_key(
        driver, name, OVERRIDE, limit.as_json(), time_limit=time_limit
    )


async def remove_override(
    driver: Driver, name: str, *, time_limit: timedelta | None = None
) -> QueueRow:
    """Have the clients of a queue count by their own numbers again; return the queue's row.
    NotFound where it has none.
    """
    return await queues.set_metadata_key(driver, name, OVERRIDE, None, time_limit=time_limit)
