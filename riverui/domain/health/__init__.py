"""The health report: is work flowing, is it succeeding, can the figures be trusted.

Each answer comes with its evidence, the causes that were ruled out, and one action.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from riverui.domain.findings import Diagnosis, Level


class Cause(StrEnum):
    """What was found to be behind the trouble."""

    NONE = ""
    NOBODY_WORKS = "nobody_works"
    """No client takes jobs: of any queue, or of one."""
    LOST_CLIENT = "lost_client"
    """A client holds jobs and gives no sign of life."""
    PAUSED = "paused"
    """Jobs wait in queues that somebody paused."""
    LEADERLESS = "leaderless"
    """No client leads: due jobs are not made available."""
    BLOCKED = "blocked"
    """A transaction holds locks that others wait for."""
    LONG_TRANSACTION = "long_transaction"
    """A transaction has been open for so long that Postgres cannot clean up behind the jobs."""
    NOTIFICATIONS = "notifications"
    """Postgres's queue of notifications fills up."""
    RETRY_STORM = "retry_storm"
    """Most of what waits has failed before, and takes the place of new jobs."""
    FLOOD = "flood"
    """One kind came in such numbers that it owns most of what waits."""
    SLOW_KIND = "slow_kind"
    """A kind takes far longer than usual, and holds most of the slots."""
    UNKNOWN_KIND = "unknown_kind"
    """Jobs of a kind wait that no client seems to work."""
    LATE = "late"
    """Jobs wait for longer than usual, and the cause could not be read."""
    LIMITS = "limits"
    """More jobs come than the clients can do: all are busy."""
    DEPLOY = "deploy"
    """Failures rise since a deploy."""
    FAILURES = "failures"
    """Failures rise."""
    POISON_JOB = "poison_job"
    """A job was lost with its worker again and again."""
    STALE = "stale"
    """The figures are old, or could not be read."""


class HealthReport(Struct, frozen=True, kw_only=True):
    """The verdict on one database at one time."""

    at: datetime
    flow: Diagnosis
    success: Diagnosis
    data: Diagnosis

    @property
    def sections(self) -> tuple[Diagnosis, ...]:
        """Return the three answers in their order."""
        return (self.flow, self.success, self.data)

    @property
    def worst(self) -> Diagnosis:
        """Return the worst answer, the first of those that are equally bad."""
        return max(self.sections, key=lambda section: section.level.badness)

    @property
    def level(self) -> Level:
        """Return the level of the worst answer."""
        return self.worst.level

    @property
    def cause(self) -> Cause:
        """Return the cause that the worst answer names."""
        return Cause(self.worst.cause)

    @property
    def headline(self) -> str:
        """Return what the worst answer says, in two sentences."""
        return f"{self.worst.title} {self.worst.headline}"
