"""The rate limit as a reason why a job is not running."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from riverui.actions.explain import JobHold
from riverui.domain.explain.facts import JobFacts
from riverui.domain.explain.holds import limits_link, of_key, origin
from riverui.domain.findings import Finding, failed, passed
from riverui.domain.jobs import JobState
from riverui.domain.queues import QueueRow
from riverui.domain.time import duration
from riverui.features.rate_limits.domain import RateLimit, number, read_terms
from riverui.features.rate_limits.store import RateStore
from riverui.storage.interface import Executor
from riverui.storage.stores.candidates import CandidateStore

_FEWEST = 1e-6
"""Rounding error in tokens, as in a bucket."""


class RateHold(Struct, frozen=True, kw_only=True):
    """The state of the bucket from which the job takes tokens."""

    limit: RateLimit
    """The limit that applies now."""
    override: bool
    """Whether its numbers were set in the database."""
    key: str
    tokens: float
    """Tokens in the bucket."""
    weight: float | None
    """Tokens that the job takes; None if unknown."""


async def _read(executor: Executor, facts: JobFacts) -> RateHold | None:
    """Return the state of a job's bucket; None if its queue is not known to have a rate limit."""
    queue, job = facts.queue, facts.job
    found = read_terms(facts.terms.rate_limit or {})
    if found is None or not isinstance(queue, QueueRow):
        return None
    if not await RateStore.installed(executor):
        return None
    configured, weighs = found
    limit = configured.overridden(queue.metadata.text)
    keys = CandidateStore(executor)
    key = await keys.job_key_get(job.id, limit.partition)
    bucket = await RateStore(executor).rate_get(queue.name, key)
    # If the limit has changed since, the bucket keeps its number of tokens.
    tokens = limit.rate.burst if bucket is None else min(bucket.tokens, limit.rate.burst)
    weighed = {by: await keys.job_key_get(job.id, by) for by in limit.weighs_args}
    return RateHold(
        limit=limit,
        override=limit != configured,
        key=key,
        tokens=tokens,
        weight=limit.weight_of(job.kind, weighed) if weighs else None,
    )


def _within(facts: JobFacts, hold: RateHold) -> Finding | None:
    """Return whether there is a token for the job under its queue's rate limit."""
    link, rate = limits_link(facts), hold.limit.rate
    weight = 1.0 if hold.weight is None else hold.weight
    words = f"Jobs{of_key(hold.key)} begin {hold.limit.words} at most, {origin(hold.override)}"
    if rate.affords(hold.tokens, weight):
        tokens = f"{_tokens(max(hold.tokens, 0.0))} of {_tokens(rate.burst)} tokens"
        return passed(f"{words}: {tokens} are available.", link)
    due = timedelta(seconds=min(max(rate.due_in(hold.tokens, weight), _FEWEST), 1e9))
    takes = "" if weight == 1 else f", of which it takes {_tokens(weight)}"
    evidence = (
        f"Its rate limit has no token{'' if weight == 1 else 's'} left for it. {words}: the next"
        f" comes in {duration(due)}{takes}, and goes to the first in line."
    )
    if hold.weight is None:
        evidence += " How many tokens it takes is unknown."
    return failed(evidence, link)


def _tokens(count: float) -> str:
    return number(int(count * 10 + _FEWEST) / 10)


RATE = JobHold(
    name="rate",
    label="Within its rate",
    after="lock",
    states=(JobState.AVAILABLE,),
    read=_read,
    check=_within,
)
