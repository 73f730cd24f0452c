"""When durable periodic jobs come next, in a table of riverui's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from riverui.domain.durable_periodic import (
    DurablePeriodicRow,
    DurablePeriodicSave,
    PeriodicChange,
)
from riverui.storage.interface.capabilities import Capability
from riverui.storage.interface.own_tables import OwnTable

PERIODIC_JOB_TABLE = OwnTable("riverui_periodic_job", 14)
"""Where they are kept."""


class DurablePeriodicExecutor(Protocol):
    """Reads and writes durable periodic jobs. Without their table every call raises
    SchemaMissing.
    """

    async def durable_periodic_list(
        self, *, ids: Sequence[str] | None = None, limit: int
    ) -> Sequence[DurablePeriodicRow]:
        """Return periodic jobs by id: these, or all of them."""
        ...

    async def durable_periodic_save(self, saves: Sequence[DurablePeriodicSave]) -> Sequence[str]:
        """Write down when jobs come next, one save an id; return the ids that were saved.

        One is not where the row says otherwise by now: that the run was inserted by another leader,
        or that somebody has changed the schedule.
        """
        ...

    async def durable_periodic_touch(self, schedules: Mapping[str, str]) -> None:
        """Say that a leader knows these jobs, by id, and what schedules their program gives them.
        Rows that are not there stay away.
        """
        ...

    async def durable_periodic_reap(self, *, unused_for: timedelta, changed_for: timedelta) -> int:
        """Forget jobs that no leader has known for so long, those that somebody changed after
        `changed_for` only (of these just the next run is forgotten before); return how many.
        """
        ...

    async def durable_periodic_change(
        self, id: str, change: PeriodicChange, *, schedule: str = "", user: str = ""
    ) -> DurablePeriodicRow | None:
        """Do what a person asks, and return the row afterwards; None where there is none."""
        ...


DURABLE_PERIODIC: Capability[DurablePeriodicExecutor] = Capability(
    "durable_periodic", "The next runs of periodic jobs do not outlive their leader."
)
