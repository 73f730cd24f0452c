"""Fair shares as a reason why a job is not running: other jobs come first."""

from __future__ import annotations

from math import ceil

from msgspec import Struct

from riverui.actions.explain import JobHold
from riverui.domain.explain.facts import JobFacts, ShareLine
from riverui.domain.explain.holds import of_key
from riverui.domain.findings import Finding, Link, cut, failed, passed, unknown
from riverui.domain.jobs import JobState
from riverui.domain.partitions import Partition
from riverui.domain.text import counted
from riverui.features.fair_shares.domain import FairShare, read_terms
from riverui.storage.interface import Executor
from riverui.storage.stores.candidates import CandidateStore
from riverui.storage.stores.explanations import ExplanationStore


class ShareHold(Struct, frozen=True, kw_only=True):
    """The jobs that come before the job, in a queue with fair shares."""

    share: FairShare
    known: bool
    """Whether the weights are known."""
    line: ShareLine
    indexed: bool
    """Whether the partition has its index, so that clients see all keys."""

    @property
    def before(self) -> int:
        """Return about how many of the waiting jobs start before this one."""
        rounds = ceil((self.line.before + 1) / self._weight(self.line.job_key or ""))
        return self.line.before + sum(
            min(jobs, ceil(rounds * self._weight(key))) for key, jobs in self.line.others.items()
        )

    def _weight(self, key: str) -> float:
        """Return how many jobs of a key start in a round: at least one."""
        share = self.share
        return share.weight_of(key) / min([*share.weights.values(), share.default_weight])


async def _read(executor: Executor, facts: JobFacts) -> ShareHold | None:
    """Return the jobs that come before a job; None if its queue is not known to have fair
    shares.
    """
    job, found = facts.job, read_terms(facts.terms.fair_share or {})
    if found is None:
        return None
    share, known = found
    line = await ExplanationStore(executor).job_share_get(
        job.queue,
        share.partition,
        priority=job.priority,
        scheduled_at=job.scheduled_at,
        id=job.id,
    )
    indexes = await CandidateStore(executor).partition_index_list()
    return ShareHold(
        share=share,
        known=known,
        line=line,
        indexed=share.partition.index_name in indexes,
    )


def _turn(facts: JobFacts, hold: ShareHold) -> Finding | None:
    """Return which jobs come first in a queue with fair shares."""
    line = hold.line
    if line.job_key is None:
        return unknown("The job no longer exists.")
    words = f"Its queue is dealt in turn by {hold.share.partition.words}"
    if not line.reached and not hold.indexed:
        evidence = (
            f"{words}, and without an index only its first {line.window:,} waiting jobs are: this"
            f" one is behind them. `{_index_command(hold.share.partition)}` creates the index."
        )
        return failed(evidence, Link(label="the queue", page="queue", name=facts.job.queue))
    if not line.before and not line.keys:
        return passed(
            f"{words}: no other job{of_key(line.job_key)} is before it, and no other key waits."
        )
    own = f"{counted(line.before, 'job')} of its key ({cut(line.job_key)})"
    others = f"{counted(line.keys, 'other key')} {'has' if line.keys == 1 else 'have'} waiting jobs"
    least = "" if line.reached else f" Among the first {line.window:,} that wait,"
    evidence = (
        f"{words}.{least} {own} {'is' if line.before == 1 else 'are'} before it, and {others}"
    )
    if hold.known and line.whole:
        begin = "begins" if hold.before == 1 else "begin"
        return failed(f"{evidence}: about {counted(hold.before, 'job')} {begin} before it.")
    return failed(f"{evidence}; each key gets its turn before the next job of its own.")


def _index_command(partition: Partition) -> str:
    """Return the command that creates a partition's index."""
    words = ["riverui partition-index"]
    if partition.by_args is not None:
        words += [f"--by-args {cut(name)}" for name in partition.by_args] or ["--by-all-args"]
    if partition.by_kind:
        words.append("--by-kind")
    return " ".join(words)


SHARE = JobHold(
    name="share",
    label="Its turn",
    after="lock",
    states=(JobState.AVAILABLE,),
    read=_read,
    check=_turn,
    reorders=True,
)
