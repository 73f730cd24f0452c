"""Batches as reasons why a job is not running, and words for limits."""

from __future__ import annotations

from datetime import timedelta

from riverui.domain.explain.facts import JobFacts
from riverui.domain.findings import Finding, Link, cut, passed
from riverui.domain.jobs import JobState
from riverui.domain.time import duration


def in_batch(facts: JobFacts) -> Finding | None:
    """Return a finding that describes a running job's batch; None if it runs outside a batch."""
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


def limits_link(facts: JobFacts) -> Link:
    """Return the link to the limits of the job's queue."""
    return Link(label="the limits", page="queue_limits", name=facts.job.queue)


def origin(override: bool) -> str:
    """Return where a limit comes from, as part of a sentence."""
    return "set for the queue" if override else "as its clients are configured"


def of_key(key: str) -> str:
    """Return the key as part of a sentence, with a space before it; empty for no key."""
    return f" of {cut(key)}" if key else ""
