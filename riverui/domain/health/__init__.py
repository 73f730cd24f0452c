"""The health report: is work flowing, is it succeeding, can the figures be trusted. Each answer has
its evidence, the causes that were ruled out, and one action.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from riverui.domain.findings import Diagnosis, Level


class Cause(StrEnum):
    """The cause of a problem."""

    NONE = ""
    NOBODY_WORKS = "nobody_works"
    """No client takes jobs, of one queue or of any."""
    LOST_CLIENT = "lost_client"
    """A client holds jobs and gives no sign of life."""
    PAUSED = "paused"
    """Jobs wait in paused queues."""
    LEADERLESS = "leaderless"
    """No client leads: due jobs are not made available."""
    BLOCKED = "blocked"
    """A transaction holds locks that others wait for."""
    LONG_TRANSACTION = "long_transaction"
    """A transaction has been open for so long that Postgres cannot clean up behind the jobs."""
    NOTIFICATIONS = "notifications"
    """Postgres's queue of notifications fills up."""
    RETRY_STORM = "retry_storm"
    """Most waiting jobs have failed before, and delay new ones."""
    FLOOD = "flood"
    """Most waiting jobs are of one kind, of which unusually many were inserted."""
    SLOW_KIND = "slow_kind"
    """A kind takes far longer than usual, and holds most of the slots."""
    UNKNOWN_KIND = "unknown_kind"
    """Jobs wait of a kind that no client seems to work."""
    LATE = "late"
    """Jobs wait for longer than usual, and the cause could not be read."""
    LIMITS = "limits"
    """More jobs come than the clients can work: all are busy."""
    FALLING_BEHIND = "falling_behind"
    """No more jobs come than usual, but the clients no longer work as many."""
    SLO_BURN = "slo_burn"
    """Far more jobs of a queue are late than its objective allows."""
    PERIODIC_STOPPED = "periodic_stopped"
    """A kind that came at regular times does not come any more."""
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
        """Return the words of the worst answer, in two sentences."""
        return f"{self.worst.title} {self.worst.headline}"
