"""Limits, rates, shares and batches as reasons why a job is not running."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from riverui.domain.checks import Check, Place, PlaceKind, Result, check, cut, unread
from riverui.domain.job_facts import JobFacts, Unread
from riverui.domain.job_holds import LimitHold
from riverui.domain.jobs import JobState
from riverui.domain.partitions import Partition
from riverui.domain.time import duration
from riverui.features.rate_limits.domain import number

_FEWEST = 1e-6
"""Tokens that may lack, as in a bucket."""


def within_limits(facts: JobFacts) -> Check | None:
    """Return whether there is a slot for the job under its queue's limits of jobs at once."""
    hold, name, label = facts.limit, "limit", "Within limits"
    if hold is None or not facts.in_line:
        return None
    if isinstance(hold, Unread):
        return check(name, label, Result.UNKNOWN, unread(hold))
    see = Place(kind=PlaceKind.QUEUE_LIMITS, words="the limits", name=facts.job.queue)
    limits, of = hold.limits, _of(hold.key)
    origin = "set here" if hold.override else "as its clients are configured"
    if limits.global_limit and hold.missing:
        evidence = (
            f"At most {limits.global_limit:,} jobs{of} run at once in all clients, {origin}; how"
            f" many do is not known without {hold.missing}."
        )
        return check(name, label, Result.UNKNOWN, evidence, see)
    if limits.global_limit and hold.taken >= limits.global_limit:
        evidence = (
            f"{_all(limits.global_limit)}{of} {'is' if limits.global_limit == 1 else 'are'} taken:"
            f" so many run at once in all clients, {origin}.{_held(hold)}"
        )
        return check(name, label, Result.FAILED, evidence, see)
    local = limits.local_limit
    if local and hold.here and min(hold.here.values()) >= local:
        clients = "Its client runs" if len(hold.here) == 1 else "Each of its clients runs"
        evidence = (
            f"{clients} {local:,} job{'' if local == 1 else 's'}{of}, and no more at once,"
            f" {origin}.{_held(hold)}"
        )
        return check(name, label, Result.FAILED, evidence, see)
    if not limits.global_limit:
        if not hold.here:
            evidence = (
                f"Each client runs at most {local:,} jobs{of} at once, {origin}; how many each does"
                " is not known."
            )
            return check(name, label, Result.UNKNOWN, evidence, see)
        evidence = (
            f"A client of its queue runs fewer jobs{of} than the {local:,} that each may, {origin}."
        )
        return check(name, label, Result.PASSED, evidence, see)
    verb = "is" if hold.taken == 1 else "are"
    slots = f"{hold.taken:,} of {limits.global_limit:,} slots{of}"
    evidence = f"{slots} {verb} taken in all clients, {origin}."
    return check(name, label, Result.PASSED, evidence, see)


def within_rate(facts: JobFacts) -> Check | None:
    """Return whether there is a token for the job under its queue's rate limit."""
    hold, name, label = facts.rate, "rate", "Within its rate"
    if hold is None or not facts.in_line:
        return None
    if isinstance(hold, Unread):
        return check(name, label, Result.UNKNOWN, unread(hold))
    see = Place(kind=PlaceKind.QUEUE_LIMITS, words="the limits", name=facts.job.queue)
    rate, weight = hold.limit.rate, 1.0 if hold.weight is None else hold.weight
    origin = "set here" if hold.override else "as its clients are configured"
    told = f"Jobs{_of(hold.key)} begin {hold.limit.words} at most, {origin}"
    if rate.affords(hold.tokens, weight):
        evidence = (
            f"{told}: {_tokens(max(hold.tokens, 0.0))} of {_tokens(rate.burst)} tokens are in hand."
        )
        return check(name, label, Result.PASSED, evidence, see)
    due = max(rate.due_in(hold.tokens, weight), _FEWEST)
    takes = "" if weight == 1 else f", of which it takes {_tokens(weight)}"
    evidence = (
        f"Its rate limit has no token{'' if weight == 1 else 's'} left for it. {told}: the next"
        f" comes in {_soon(due)}{takes}, and goes to the first in line."
    )
    if hold.weight is None:
        evidence += " How many it takes itself is not known here."
    return check(name, label, Result.FAILED, evidence, see)


def its_turn(facts: JobFacts) -> Check | None:
    """Return whose turn comes first, where the queue's jobs are dealt in turn."""
    hold, name, label = facts.share, "share", "Its turn"
    if hold is None or not facts.in_line:
        return None
    if isinstance(hold, Unread):
        return check(name, label, Result.UNKNOWN, unread(hold))
    line = hold.line
    if line.key is None:
        return check(name, label, Result.UNKNOWN, "The job is gone.")
    told = f"Its queue is dealt in turn by {hold.share.partition.words}"
    if not line.reached and not hold.indexed:
        evidence = (
            f"{told}, and without an index only its first {line.window:,} waiting jobs are: this"
            f" one stands behind them. `{index_command(hold.share.partition)}` makes the index."
        )
        see = Place(kind=PlaceKind.QUEUE, words="the queue", name=facts.job.queue)
        return check(name, label, Result.FAILED, evidence, see)
    own = f"{line.before:,} job{' of its key' if line.before == 1 else 's of its key'}"
    others = f"{line.keys:,} other key{' has' if line.keys == 1 else 's have'} waiting jobs"
    if not line.before and not line.keys:
        evidence = f"{told}: no other job{_of(line.key)} stands before it, and no other key waits."
        return check(name, label, Result.PASSED, evidence)
    least = "" if line.reached else f" Among the first {line.window:,} that wait,"
    evidence = (
        f"{told}.{least} {own} ({cut(line.key)}) {'stands' if line.before == 1 else 'stand'} before"
        f" it, and {others}"
    )
    if hold.known and line.whole:
        evidence += f": {_begin(hold.before)} before it."
    else:
        evidence += "; each key gets its turn before the next job of its own."
    return check(name, label, Result.FAILED, evidence)


def in_batch(facts: JobFacts) -> Check | None:
    """Return whether a running job may be waiting for others of its batch."""
    job, batch = facts.job, facts.batch
    if batch is None or job.state is not JobState.RUNNING or job.attempted_at is None:
        return None
    since = facts.now - job.attempted_at
    evidence = (
        f"Jobs of its kind are worked together, up to {batch.max_count:,} of them: the first waits"
        f" {duration(batch.max_delay)} at most for others."
    )
    if since < batch.max_delay:
        left = duration(batch.max_delay - since)
        evidence += f" It may be waiting for another {left}."
    return check("batch", "Its batch", Result.PASSED, evidence)


def index_command(partition: Partition) -> str:
    """Return the command that makes a partition's index."""
    words = ["riverui partition-index"]
    if partition.by_args is not None:
        words += [f"--by-args {cut(name)}" for name in partition.by_args] or ["--by-all-args"]
    if partition.by_kind:
        words.append("--by-kind")
    return " ".join(words)


def _all(count: int) -> str:
    return "The only slot" if count == 1 else f"All {count:,} slots"


def _of(key: str) -> str:
    return f" of {cut(key)}" if key else ""


def _held(hold: LimitHold) -> str:
    """Return who has the slots, as a sentence with a space before it."""
    if hold.jobs:
        more = hold.taken - len(hold.jobs)
        named = [f"job {job.id}" for job in hold.jobs]
        if more > 0:
            named.append(f"{more:,} more")
        at = {job.client for job in hold.jobs if job.client}
        by = f", at {_listed(sorted(map(cut, at)))}" if at else ""
        verb, it = ("holds", "it") if len(named) == 1 else ("hold", "them")
        return f" {_listed(named).capitalize()} {verb} {it}{by}."
    if hold.clients:
        clients = [f"{cut(name)} ({count:,})" for name, count in list(hold.clients.items())[:3]]
        return f" They are with {_listed(clients)}."
    return ""


def _listed(words: Collection[str]) -> str:
    found = list(words)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


def _tokens(count: float) -> str:
    return number(int(count * 10 + _FEWEST) / 10)


def _soon(seconds: float) -> str:
    return duration(timedelta(seconds=min(seconds, 1e9)))


def _begin(count: int) -> str:
    return f"about {count:,} job{' begins' if count == 1 else 's begin'}"
