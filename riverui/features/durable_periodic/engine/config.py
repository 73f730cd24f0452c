"""The configuration of durable periodic jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from riverui.errors import ConfigError

NextRunAtRatchet = Callable[[datetime, datetime], datetime]
"""Takes the stored next run and the current time; returns the next run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DurablePeriodicJobsConfig:
    """River Pro's DurablePeriodicJobsConfig. Only the leader's settings apply, so every client that
    may lead should have the same.
    """

    enabled: bool = False
    """Store the next run of each periodic job with an id in `riverui_periodic_job`."""
    stale_threshold: timedelta = timedelta(hours=24)
    """How long a job is kept that no leader is configured with any more."""
    start_stagger_spread: timedelta = timedelta(minutes=1)
    """When a client starts to lead with many overdue jobs, the time over which they are spread."""
    start_stagger_threshold: int = 100
    """The number of overdue jobs from which on they are spread; 0 never spreads them."""
    next_run_at_ratchet: NextRunAtRatchet | None = None
    """Moves stored next runs out of the past, so that missed runs are not all made up for: `lambda
    at, now: max(at, now)` inserts one job for all of them. It never moves them back.
    """

    def __post_init__(self) -> None:
        for name in ("stale_threshold", "start_stagger_spread"):
            if not isinstance(getattr(self, name), timedelta):
                raise ConfigError(f"DurablePeriodicJobsConfig: {name} must be a timedelta.")
        if self.stale_threshold < timedelta(minutes=1):
            raise ConfigError(
                "DurablePeriodicJobsConfig: stale_threshold must be at least a minute."
            )
        if self.start_stagger_spread < timedelta(0):
            raise ConfigError(
                "DurablePeriodicJobsConfig: start_stagger_spread must not be negative."
            )
        threshold = self.start_stagger_threshold
        if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 0:
            raise ConfigError(
                "DurablePeriodicJobsConfig: start_stagger_threshold must be a whole number of at"
                " least 0."
            )
        if self.next_run_at_ratchet is not None and not callable(self.next_run_at_ratchet):
            raise ConfigError("DurablePeriodicJobsConfig: next_run_at_ratchet must be a function.")
