"""Settings of one queue: River's QueueConfig, and riverui's limits."""

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
_MAX_WORKERS = 10_000
"""River's limit for `max_workers`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueConfig:
    """The settings of one queue."""

    max_workers: int
    """How many jobs of this queue run at once in this process, 1 to 10,000."""
    fetch_cooldown: timedelta | None = None
    """Default: the client's."""
    fetch_poll_interval: timedelta | None = None
    """Default: the client's."""
    concurrency: ConcurrencyConfig | None = None
    """How many of its jobs run at once, in total or per partition, in this client and in all
    clients.
    """
    rate_limit: RateLimit | None = None
    """How fast jobs start in all clients together; needs a table of riverui's."""
    fair_share: FairShare | None = None
    """Fetches jobs in turn by the keys of a partition, instead of the oldest first."""
    ephemeral: bool = False
    """Deletes jobs of this queue on success, instead of completing them."""
    cancelled_job_retention_period: timedelta | None = None
    """How long the leader keeps cancelled jobs, if its config has this queue. NO_LIMIT keeps them
    for ever. Default: the client's; so for the next two.
    """
    completed_job_retention_period: timedelta | None = None
    discarded_job_retention_period: timedelta | None = None

    def __post_init__(self) -> None:
        check_type("concurrency", self.concurrency, "ConcurrencyConfig")
        check_type("rate_limit", self.rate_limit, "RateLimit")
        check_type("fair_share", self.fair_share, "FairShare")
        check_number("max_workers", self.max_workers, least=1, most=_MAX_WORKERS)
        for name in ("fetch_cooldown", "fetch_poll_interval"):
            if getattr(self, name) is not None:
                check_span(name, getattr(self, name), least=_MILLISECOND)
        for state in ("cancelled", "completed", "discarded"):
            name = f"{state}_job_retention_period"
            if getattr(self, name) is not None:
                check_span(name, getattr(self, name), or_no_limit=True)

    @property
    def retention(self) -> Retention:
        """How long finished jobs of this queue are kept, with None for unset periods."""
        return Retention(
            cancelled=self.cancelled_job_retention_period,
            completed=self.completed_job_retention_period,
            discarded=self.discarded_job_retention_period,
        )
