"""The limits of concurrent jobs as a reason why a job is not running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from riverui.actions.explain import JobHold
from riverui.domain.explain.facts import JobFacts, JobHolder
from riverui.domain.explain.holds import limits_link, of_key, origin
from riverui.domain.findings import Finding, cut, failed, listed, passed, unknown
from riverui.domain.jobs import JobState
from riverui.domain.json import read_object
from riverui.domain.queues import QueueRow
from riverui.domain.text import counted
from riverui.features.concurrency import verbs as concurrency
from riverui.features.concurrency.domain import ConcurrencyConfig
from riverui.features.concurrency.store import LimitStore
from riverui.storage.interface import Executor
from riverui.storage.stores.candidates import CandidateStore
from riverui.storage.stores.explanations import ExplanationStore


class LimitHold(Struct, frozen=True, kw_only=True):
    """The limits of concurrent jobs and their use in the job's partition."""

    limits: ConcurrencyConfig
    override: bool
    """Whether the limits were set in the database and override the clients' own."""
    key: str
    taken: int
    """Slots of the key that clients have borrowed under a global limit."""
    clients: Mapping[str, int]
    """Client → its slots; those with the most slots."""
    running: Mapping[str, int]
    """Client → running jobs of the key, some seconds ago."""
    jobs: Sequence[JobHolder]
    """The first of the running jobs."""
    missing: str
    """The migration that global limits need, as part of a sentence; empty if it is there."""


async def _read(executor: Executor, facts: JobFacts) -> LimitHold | None:
    """Return the limits and their use for a job; None if there are none."""
    queue, now = facts.queue, facts.now
    if not isinstance(queue, QueueRow):
        return None
    found = await concurrency.read(executor, queue, now=now, limit=1)
    limits = found.effective
    if limits is None or not limits.limits:
        return None
    key = await CandidateStore(executor).job_key_get(facts.job.id, limits.partition)
    row, running_by_client = None, {}
    if not found.missing:
        row = await LimitStore(executor).limit_get(queue.name, key)
        for producer in await concurrency.limited(executor, queue, now=now):
            running = read_object(producer.running).get(key, 0)
            running_by_client[producer.client_id] = running if isinstance(running, int) else 0
    jobs = await ExplanationStore(executor).job_holder_list(queue.name, limits.partition, key)
    return LimitHold(
        limits=limits,
        override=found.override is not None,
        key=key,
        taken=row.taken if row else 0,
        clients=row.clients if row else {},
        running=running_by_client,
        jobs=jobs,
        missing=found.missing,
    )


def _within(facts: JobFacts, hold: LimitHold) -> Finding | None:
    """Return whether there is a slot for the job under its queue's limits on jobs at once."""
    link, by = limits_link(facts), origin(hold.override)
    most, local, key = hold.limits.global_limit, hold.limits.local_limit, of_key(hold.key)
    if most and hold.missing:
        evidence = (
            f"At most {most:,} jobs{key} run at once in all clients, {by}; without"
            f" {hold.missing} it is not known how many do."
        )
        return unknown(evidence, link)
    if most and hold.taken >= most:
        slots, verb = ("The only slot", "is") if most == 1 else (f"All {most:,} slots", "are")
        evidence = (
            f"{slots}{key} {verb} taken: that many run at once in all clients, {by}.{_held(hold)}"
        )
        return failed(evidence, link)
    if local and hold.running and min(hold.running.values()) >= local:
        clients = "Its client runs" if len(hold.running) == 1 else "Each of its clients runs"
        evidence = (
            f"{clients} {counted(local, 'job')}{key}, and no more at once, {by}.{_held(hold)}"
        )
        return failed(evidence, link)
    if most:
        verb = "is" if hold.taken == 1 else "are"
        slots = f"{hold.taken:,} of {most:,} slots{key}"
        return passed(f"{slots} {verb} taken in all clients, {by}.", link)
    if not hold.running:
        evidence = (
            f"Each client runs at most {local:,} jobs{key} at once, {by}; it is not"
            " known how many each runs."
        )
        return unknown(evidence, link)
    evidence = f"A client of its queue runs fewer jobs{key} than the {local:,} allowed, {by}."
    return passed(evidence, link)


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
        return f" They are held by {listed(clients)}."
    return ""


LIMIT = JobHold(
    name="limit",
    label="Within limits",
    after="lock",
    states=(JobState.AVAILABLE,),
    read=_read,
    check=_within,
)
