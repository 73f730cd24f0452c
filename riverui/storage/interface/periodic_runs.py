"""What tells which jobs come again and again."""

from __future__ import annotations

from typing import Protocol

from riverui.domain.periodic import PeriodicHistories
from riverui.storage.interface.capabilities import Capability


class PeriodicRunExecutor(Protocol):
    """Reads periodic jobs out of the rows that they leave."""

    async def periodic_history_list(
        self, *, most: int = 20_000, names: int = 200, runs: int = 40
    ) -> PeriodicHistories | None:
        """Return periodic jobs by name, those without a name by kind, at most `names`, each with
        its newest `runs`; None where they cannot be read in time.

        Where there are more than `most` jobs of them, those among the newest jobs of the table.
        """
        ...


PERIODIC_RUNS: Capability[PeriodicRunExecutor] = Capability(
    "periodic_runs", "Periodic jobs cannot be told from others on this database."
)
