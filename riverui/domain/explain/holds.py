"""Limits, rates, fair shares and batches as reasons why a job is not running."""

from __future__ import annotations

from datetime import timedelta

from riverui.domain.explain.facts import JobFacts, LimitHold
from riverui.domain.findings import Finding, Link, cut, failed, known, listed, passed, unknown
from riverui.domain.jobs import JobState
from riverui.domain.partitions import Partition
from riverui.domain.text import counted
from riverui.domain.time import duration
from riverui.features.rate_limits.domain import number

_FEWEST = 1e-6
"""Tokens that may be missing, as in a bucket."""


def within_limits(facts: JobFacts) -> Finding | None:
    """Return whether there is a slot for the job under its queue's limits of jobs at once."""
    if facts.limit is None or not facts.in_line:
        return None
    hold, link = known(facts.limit), _limits_link(facts)
    most, local, key = hold.limits.global_limit, hold.limits.local_limit, _key(hold.key)
    origin = _origin(hold.override)
    if most and hold.missing:
        evidence = (
            f"At most {most:,} jobs{key} run at once in all clients, {origin}; how many do is not"
            f" known without {hold.missing}."
        )
        return unknown(evidence, link)
    if most and hold.taken >= most:
        slots, verb = ("The only slot", "is") if most == 1 else (f"All {most:,} slots", "are")
        evidence = (
            f"{slots}{key} {verb} taken: so many run at once in all clients, {origin}.{_held(hold)}"
        )
        return failed(evidence, link)
    if local and hold.here and min(hold.here.values()) >= local:
        clients = "Its client runs" if len(hold.here) == 1 else "Each of its clients runs"
        evidence = (
            f"{clients} {counted(local, 'job')}{key}, and no more at once, {origin}.{_held(hold)}"
        )
        return failed(evidence, link)
    if most:
        verb = "is" if hold.taken == 1 else "are"
        slots = f"{hold.taken:,} of {most:,} slots{key}"
        return passed(f"{slots} {verb} taken in all clients, {origin}.", link)
    if not hold.here:
        evidence = (
            f"Each client runs at most {local:,} jobs{key} at once, {origin}; how many each does is"
            " not known."
        )
        return unknown(evidence, link)
    evidence = (
        f"A client of its queue runs fewer jobs{key} than the {local:,} that each may, {origin}."
    )
    return passed(evidence, link)


def within_rate(facts: JobFacts) -> Finding | None:
    """Return whether there is a token for the job under its queue's rate limit."""
    if facts.rate is None or not facts.in_line:
        return None
    hold, link = known(facts.rate), _limits_link(facts)
    rate, weight = hold.limit.rate, 1.0 if hold.weight is None else hold.weight
    words = f"Jobs{_key(hold.key)} begin {hold.limit.words} at most, {_origin(hold.override)}"
    if rate.affords(hold.tokens, weight):
        tokens = f"{_tokens(max(hold.tokens, 0.0))} of {_tokens(rate.burst)} tokens"
        return passed(f"{words}: {tokens} are in hand.", link)
    due = timedelta(seconds=min(max(rate.due_in(hold.tokens, weight), _FEWEST), 1e9))
    takes = "" if weight == 1 else f", of which it takes {_tokens(weight)}"
    evidence = (
        f"Its rate limit has no token{'' if weight == 1 else 's'} left for it. {words}: the next"
        f" comes in {duration(due)}{takes}, and goes to the first in line."
    )
    if hold.weight is None:
        evidence += " How many it takes itself is not known here."
    return failed(evidence, link)


def its_turn(facts: JobFacts) -> Finding | None:
    """Return whose turn comes first in a queue with fair shares."""
    if facts.share is None or not facts.in_line:
        return None
    hold = known(facts.share)
    line = hold.line
    if line.key is None:
        return unknown("The job is gone.")
    words = f"Its queue is dealt in turn by {hold.share.partition.words}"
    if not line.reached and not hold.indexed:
        evidence = (
            f"{words}, and without an index only its first {line.window:,} waiting jobs are: this"
            f" one stands behind them. `{_index_command(hold.share.partition)}` makes the index."
        )
        return failed(evidence, Link(label="the queue", page="queue", name=facts.job.queue))
    if not line.before and not line.keys:
        return passed(
            f"{words}: no other job{_key(line.key)} stands before it, and no other key waits."
        )
    own = f"{counted(line.before, 'job')} of its key ({cut(line.key)})"
    others = f"{counted(line.keys, 'other key')} {'has' if line.keys == 1 else 'have'} waiting jobs"
    least = "" if line.reached else f" Among the first {line.window:,} that wait,"
    evidence = (
        f"{words}.{least} {own} {'stands' if line.before == 1 else 'stand'} before it, and {others}"
    )
    if hold.known and line.whole:
        begin = "begins" if hold.before == 1 else "begin"
        return failed(f"{evidence}: about {counted(hold.before, 'job')} {begin} before it.")
    return failed(f"{evidence}; each key gets its turn before the next job of its own.")


def in_batch(facts: JobFacts) -> Finding | None:
    """Return whether a running job may be waiting for others of its batch."""
    job, batch = facts.job, facts.batch
    if batch is None or job.state is not JobState.RUNNING or job.attempted_at is None:
        return None
    evidence = (
        f"Jobs of its kind are worked together, up to {batch.max_count:,} of them: the first waits"
        f" {duration(batch.max_delay)} at most for others."
    )
    left = batch.max_delay - (facts.now - job.attempted_at)
    if left > timedelta(0):
        evidence += f" It may be waiting for another {duration(left)}."
    return passed(evidence)


def _index_command(partition: Partition) -> str:
    """Return the command that makes a partition's index."""
    words = ["riverui partition-index"]
    if partition.by_args is not None:
        words += [f"--by-args {cut(name)}" for name in partition.by_args] or ["--by-all-args"]
    if partition.by_kind:
        words.append("--by-kind")
    return " ".join(words)


def _limits_link(facts: JobFacts) -> Link:
    return Link(label="the limits", page="queue_limits", name=facts.job.queue)


def _origin(override: bool) -> str:
    return "set here" if override else "as its clients are configured"


def _key(key: str) -> str:
    return f" of {cut(key)}" if key else ""


def _held(hold: LimitHold) -> str:
    """Return who has the slots, as a sentence with a space before it; empty if unknown."""
    if hold.jobs:
        more = hold.taken - len(hold.jobs)
        holders = [f"job {job.id}" for job in hold.jobs] + ([f"{more:,} more"] if more > 0 else [])
        clients = sorted({cut(job.client) for job in hold.jobs if job.client})
        at = f", at {listed(clients)}" if clients else ""
        verb = "holds it" if len(holders) == 1 else "hold them"
        return f" {listed(holders).capitalize()} {verb}{at}."
    if hold.clients:
        clients = [f"{cut(name)} ({count:,})" for name, count in [*hold.clients.items()][:3]]
        return f" They are with {listed(clients)}."
    return ""


def _tokens(count: float) -> str:
    return number(int(count * 10 + _FEWEST) / 10)
