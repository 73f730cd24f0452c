"""Whether discarded jobs are kept as dead letters, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from riverui.engine.spans import NO_LIMIT
from riverui.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterConfig:
    """River Pro's DeadLetterConfig. Only the leader's settings apply, so every client that may lead
    should have the same.
    """

    enabled: bool = False
    """Move discarded jobs to `riverui_dead_job` once they are past their retention."""
    retention_period: timedelta = NO_LIMIT
    """How long dead letters are kept there; by default without limit."""

    def __post_init__(self) -> None:
        period = self.retention_period
        if not isinstance(period, timedelta):
            raise ConfigError("DeadLetterConfig: retention_period must be a timedelta.")
        if period < timedelta(0) and period != NO_LIMIT:
            raise ConfigError(
                "DeadLetterConfig: retention_period must not be negative, unless it is NO_LIMIT."
            )
