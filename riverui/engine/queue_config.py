"""How one queue is worked: River's QueueConfig, and what limits its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from riverui.engine.retention import Retention
from riverui.engine.setting_checks import check_number, check_span, check_type

if TYPE_CHECKING:
    from riverui.features.concurrency.domain import ConcurrencyConfig
    from riverui.features.fair_shares.domain import FairShare
    from riverui.features.rate_limits.domain import RateLimit

_MILLISECOND = timedelta(milliseconds=1)
_MOST_WORKERS = 10_000
"""River's limit for `max_workers`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueConfig:
    """How one queue is worked."""

    max_workers: int
    """Jobs of this queue that run at once in this process, 1 to 10,000."""
    fetch_cooldown: timedelta | None = None
    """The client's unless given."""
    fetch_poll_interval: timedelta | None = None
    """The client's unless given."""
    concurrency: ConcurrencyConfig | None = None
    """How many jobs of it, or of each partition of it, run at once, in all clients too."""
    rate_limit: RateLimit | None = None
    """How fast jobs may begin, in all clients together; it needs a table of riverui's own."""
    fair_share: FairShare | None = None
    """Deals the jobs in turn to the keys of a partition, instead of the oldest first."""
    ephemeral: bool = False
    """Removes jobs of this queue when they have gone well, instead of completing them."""
    cancelled_job_retention_period: timedelta | None = None
    """The client's unless given, as the others: how long the leader, where it has this queue, keeps
    finished jobs of it. NO_LIMIT keeps them for ever.
    """
    completed_job_retention_period: timedelta | None = None
    discarded_job_retention_period: timedelta | None = None

    def __post_init__(self) -> None:
        check_type("concurrency", self.concurrency, "ConcurrencyConfig")
        check_type("rate_limit", self.rate_limit, "RateLimit")
        check_type("fair_share", self.fair_share, "FairShare")
        check_number("max_workers", self.max_workers, least=1, most=_MOST_WORKERS)
        for name in ("fetch_cooldown", "fetch_poll_interval"):
            if getattr(self, name) is not None:
                check_span(name, getattr(self, name), least=_MILLISECOND)
        for state in ("cancelled", "completed", "discarded"):
            name = f"{state}_job_retention_period"
            if getattr(self, name) is not None:
                check_span(name, getattr(self, name), or_no_limit=True)

    @property
    def retention(self) -> Retention:
        """How long finished jobs of this queue are kept, as far as it has periods of its own."""
        return Retention(
            cancelled=self.cancelled_job_retention_period,
            completed=self.completed_job_retention_period,
            discarded=self.discarded_job_retention_period,
        )
