"""Groups of failed jobs with the same error, and the decisions about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from riverui.domain.jobs import JobState
from riverui.features.error_groups.domain.fingerprints import ErrorSignature

NEW = timedelta(hours=1)
"""How long a group counts as new: as long as its last-hour figure can include all its jobs."""


class FailedJobPlace(NamedTuple):
    """A failed job as found in an index."""

    id: int
    attempt: int


class JobErrorRow(NamedTuple):
    """The error of a job's last failed attempt."""

    id: int
    state: JobState
    attempt: int
    kind: str
    queue: str
    worker: str
    """The client that worked it last; empty if the row names none."""
    release: str
    """The release of the program that worked it; empty if the job names none."""
    at: datetime
    """When the attempt started."""
    error: str
    trace: str
    given: str
    """The fingerprint that the job sets itself; empty if none."""


class FailedJob(NamedTuple):
    """A job of a group."""

    id: int
    state: JobState
    attempt: int
    kind: str
    queue: str
    worker: str
    release: str
    at: datetime
    fingerprint: str
    like: int = 0
    """Equal for jobs of a kind whose errors have the same type and message, whatever their stacks;
    0 if the job sets its fingerprint itself, or if its error has neither.
    """

    @property
    def keys(self) -> tuple[str | int, ...]:
        """Return what is equal for jobs with the same error."""
        return (self.fingerprint, self.like) if self.like else (self.fingerprint,)


class ErrorState(StrEnum):
    """What users have decided about a group."""

    UNRESOLVED = "unresolved"
    RESOLVED = "resolved"
    IGNORED = "ignored"


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorDecision:
    """A state with its details."""

    state: ErrorState
    reason: str = ""
    release: str = ""
    """The release that fixes a resolved group; empty for any release from now on."""
    old_releases: tuple[str, ...] = ()
    """Releases that had failed before the decision: further failures of theirs do not reopen the
    group.
    """
    until_at: datetime | None = None
    """Until when a group is ignored; None without such an end."""
    until_rate: int | None = None
    """The group is ignored until so many jobs fail within an hour."""
    until_total: int | None = None
    """The group is ignored until so many jobs have failed since the decision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorGroupRow:
    """The stored row of a group."""

    fingerprint: str
    title: str
    first_at: datetime
    last_at: datetime
    number: int
    """Failed jobs counted, each as often as it failed while a dashboard was reading."""
    sample_job_id: int
    decision: ErrorDecision
    decided_at: datetime | None = None
    decided_by: str = ""
    regressed_at: datetime | None = None
    """When it failed again after it had been resolved; None if it has not since the last
    decision.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorGroupSighting:
    """What a read of the failed jobs adds to the stored row of a group."""

    fingerprint: str
    title: str
    first_at: datetime
    last_at: datetime
    number: int
    sample_job_id: int


class Reopening(NamedTuple):
    """A decision that no longer holds."""

    fingerprint: str
    decided_at: datetime
    """Identifies the decision, as a later one may have replaced it."""
    regressed_at: datetime | None
    """When a resolved group failed again; None if an ignored one has reached its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorGroup:
    """Failed jobs with the same error."""

    signature: ErrorSignature
    """The signature of the newest job."""
    jobs: Sequence[FailedJob]
    """Newest first; empty for a group that is only stored."""
    row: ErrorGroupRow | None = None
    """The stored row; None if there is none."""
    earlier_at: datetime | None = None
    """When a job failed with it that has since completed; None if none is known."""
    joined: Sequence[ErrorGroup] = ()
    """The groups that it joins, of most jobs first, if there are several: their errors differ only
    in their stacks.
    """

    @property
    def parts(self) -> Sequence[ErrorGroup]:
        """Return the groups as they are stored, one for each fingerprint."""
        return self.joined or (self,)

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint that the jobs have in common."""
        return self.signature.fingerprint

    @property
    def first_at(self) -> datetime:
        """Return when it was first seen: by the stored row, or else among the jobs read."""
        seen = [self.jobs[-1].at] if self.jobs else []
        seen += [self.row.first_at] if self.row else []
        return min([*seen, self.earlier_at] if self.earlier_at else seen)

    @property
    def last_at(self) -> datetime:
        """Return when it was last seen."""
        seen = [self.jobs[0].at] if self.jobs else []
        return max([*seen, self.row.last_at] if self.row else seen)

    @property
    def kinds(self) -> Mapping[str, int]:
        """Return the number of jobs of each kind, commonest first."""
        return _counted(job.kind for job in self.jobs)

    @property
    def queues(self) -> Mapping[str, int]:
        """Return the number of jobs of each queue."""
        return _counted(job.queue for job in self.jobs)

    @property
    def workers(self) -> Mapping[str, int]:
        """Return the number of jobs that each client worked last, without jobs that name no
        client.
        """
        return _counted(job.worker for job in self.jobs if job.worker)

    @property
    def releases(self) -> Mapping[str, int]:
        """Return the number of jobs that each release worked, without jobs that name no release."""
        return _counted(job.release for job in self.jobs if job.release)

    def since(self, at: datetime) -> int:
        """Return how many jobs failed last after that time."""
        return sum(job.at > at for job in self.jobs)

    def state(self, now: datetime) -> ErrorState:
        """Return the decided state, if the decision still holds."""
        if self.row is None or self.reopening(now):
            return ErrorState.UNRESOLVED
        return self.row.decision.state

    def regressed_at(self, now: datetime) -> datetime | None:
        """Return when it failed again after it had been resolved; None if it has not."""
        if found := self.reopening(now):
            return found.regressed_at
        return self.row.regressed_at if self.row else None

    def reopening(self, now: datetime) -> Reopening | None:
        """Return what ends the decision about the group; None while it holds."""
        row = self.row
        if row is None or row.decided_at is None:
            return None
        decided_at, given = row.decided_at, row.decision
        if given.state is ErrorState.RESOLVED:
            old = frozenset(given.old_releases) - {given.release}
            again = [j.at for j in self.jobs if j.at > decided_at and j.release not in old]
            if again:
                return Reopening(row.fingerprint, decided_at, min(again))
        elif given.state is ErrorState.IGNORED:
            over = given.until_at is not None and now >= given.until_at
            often = given.until_rate is not None and self.since(
                max(decided_at, now - timedelta(hours=1))
            )
            many = given.until_total is not None and self.since(decided_at)
            if (
                over
                or (given.until_rate is not None and often >= given.until_rate)
                or (given.until_total is not None and many >= given.until_total)
            ):
                return Reopening(row.fingerprint, decided_at, None)
        return None

    def new_since(self, at: datetime) -> bool:
        """Return whether it was first seen after that time."""
        return self.first_at > at


def grouped(
    jobs: Iterable[FailedJob],
    signatures: Mapping[str, ErrorSignature],
    rows: Mapping[str, ErrorGroupRow] | None = None,
) -> dict[str, ErrorGroup]:
    """Return groups by fingerprint, those that failed last first; `rows` are their stored rows."""
    found: dict[str, list[FailedJob]] = {}
    for job in sorted(jobs, key=_when, reverse=True):
        found.setdefault(job.fingerprint, []).append(job)
    return {
        fingerprint: ErrorGroup(
            signature=signatures[fingerprint],
            jobs=tuple(members),
            row=rows.get(fingerprint) if rows else None,
        )
        for fingerprint, members in found.items()
    }


def join_alike(
    parts: Mapping[str, ErrorGroup], earlier: Mapping[str | int, datetime]
) -> dict[str, ErrorGroup]:
    """Return the groups with those joined whose errors differ only in their stacks, by the least
    fingerprint of each. `earlier` are times at which jobs failed that have since completed, by
    their `keys`.
    """
    joined, first = {fingerprint: fingerprint for fingerprint in parts}, dict[int, str]()

    def least(fingerprint: str) -> str:
        while (other := joined[fingerprint]) != fingerprint:
            joined[fingerprint] = fingerprint = joined[other]
        return fingerprint

    for fingerprint, part in parts.items():
        for like in {job.like for job in part.jobs if job.like}:
            pair = least(fingerprint), least(first.setdefault(like, fingerprint))
            joined[max(pair)] = min(pair)
    sets: dict[str, list[ErrorGroup]] = {}
    for fingerprint, part in parts.items():
        sets.setdefault(least(fingerprint), []).append(part)
    groups = {}
    for fingerprint, found in sets.items():
        group = found[0] if len(found) == 1 else _join(fingerprint, found)
        times = [at for job in group.jobs for key in job.keys if (at := earlier.get(key))]
        groups[fingerprint] = replace(group, earlier_at=min(times, default=None))
    return groups


def _join(fingerprint: str, parts: Sequence[ErrorGroup]) -> ErrorGroup:
    """Return the group of these parts, those that failed last first."""
    row = None
    if rows := [part.row for part in parts if part.row]:
        # The newest decision is about all of them.
        decided = [row for row in rows if row.decided_at] or rows
        row = replace(
            max(decided, key=lambda row: row.decided_at or row.last_at),
            fingerprint=fingerprint,
            first_at=min(row.first_at for row in rows),
            last_at=max(row.last_at for row in rows),
            number=sum(row.number for row in rows),
        )
    jobs = sorted((job for part in parts for job in part.jobs), key=_when, reverse=True)
    return ErrorGroup(
        signature=replace(parts[0].signature, fingerprint=fingerprint),
        jobs=tuple(jobs),
        row=row,
        joined=sorted(parts, key=lambda part: len(part.jobs), reverse=True),
    )


def _when(job: FailedJob) -> tuple[datetime, int]:
    return job.at, job.id


def sighting(group: ErrorGroup) -> ErrorGroupSighting:
    """Return what the group's jobs add to its stored row."""
    row = group.row
    return ErrorGroupSighting(
        fingerprint=group.fingerprint,
        title=group.signature.title,
        first_at=group.first_at,
        last_at=group.last_at,
        number=group.since(row.last_at) if row else len(group.jobs),
        sample_job_id=group.jobs[0].id if group.jobs else row.sample_job_id if row else 0,
    )


def is_news(group: ErrorGroup) -> bool:
    """Return whether the group's jobs add anything to its stored row."""
    row = group.row
    return row is None or group.last_at > row.last_at or group.first_at < row.first_at


def remembered_group(row: ErrorGroupRow) -> ErrorGroup:
    """Return a group that has a stored row and no jobs."""
    signature = ErrorSignature(fingerprint=row.fingerprint, type="", message=row.title, frames=())
    return ErrorGroup(signature=signature, jobs=(), row=row)


def _counted(names: Iterable[str]) -> Mapping[str, int]:
    return dict(Counter(names).most_common())
