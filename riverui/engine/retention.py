"""How long finished jobs are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from riverui.engine.spans import NO_LIMIT
from riverui.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How long finished jobs are kept, by state. NO_LIMIT keeps them for ever; None means the
    client's own period.
    """

    cancelled: timedelta | None = None
    completed: timedelta | None = None
    discarded: timedelta | None = None

    def __post_init__(self) -> None:
        for state in ("cancelled", "completed", "discarded"):
            period = getattr(self, state)
            if period is None:
                continue
            if not isinstance(period, timedelta):
                raise ConfigError(f"{state} must be a timedelta.")
            if period < timedelta(0) and period != NO_LIMIT:
                raise ConfigError(f"{state} must be not negative, or NO_LIMIT.")

    def or_else(self, general: Retention) -> Retention:
        """Return these periods, with the general ones for those that are None."""
        return Retention(
            cancelled=general.cancelled if self.cancelled is None else self.cancelled,
            completed=general.completed if self.completed is None else self.completed,
            discarded=general.discarded if self.discarded is None else self.discarded,
        )


RIVERS_RETENTION = Retention(
    cancelled=timedelta(hours=24), completed=timedelta(hours=24), discarded=timedelta(days=7)
)
"""River's defaults."""
