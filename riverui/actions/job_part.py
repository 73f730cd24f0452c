"""What features need to take part in the verbs on jobs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

from riverui.storage.interface import OWN_TABLES, WORKFLOWS, Executor
from riverui.storage.interface.job_actions import JobChanges

Inner = Callable[[Sequence[int]], Awaitable[JobChanges]]
"""Goes on with the verb, on the same executor."""

_BELIEVED_SECONDS = 10.0
"""How long an answer about the tables is believed: so soon a process notices that they were made or
removed, and bulk operations ask once for many batches.
"""


class KnownTables:
    """Which of riverui's own and of River Pro's tables there are, asked now and then."""

    def __init__(
        self,
        *,
        seconds: float = _BELIEVED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        pro: bool = True,
    ) -> None:
        self._asked = float("-inf")
        self._clock = clock
        self._pro = pro
        """Whether River Pro's tables are asked for as well."""
        self._seconds = seconds
        self.known: frozenset[str] = frozenset()
        """Those that were there when the database was last asked."""
        self.told = False
        """Whether the database has ever answered."""

    @property
    def stale(self) -> bool:
        """Whether the database is asked anew by whoever wants to know."""
        return self._clock() - self._asked >= self._seconds

    async def names(self, executor: Executor) -> frozenset[str]:
        """Return their names, as far as the database has told lately."""
        if self.stale:
            names: frozenset[str] = frozenset()
            if OWN_TABLES in executor.capabilities:
                names = await OWN_TABLES.on(executor).own_table_list()
            if self._pro and WORKFLOWS in executor.capabilities:
                names = names.union(await WORKFLOWS.on(executor).pro_tables())
            self.known, self._asked, self.told = names, self._clock(), True
        return self.known

    def ask_again(self) -> None:
        """Ask the database when next asked: what it told does not hold any more."""
        self._asked = float("-inf")


def merge(*changes: JobChanges) -> JobChanges:
    """Return several answers as one."""
    return JobChanges(
        changed=tuple(chain.from_iterable(change.changed for change in changes)),
        requested=tuple(chain.from_iterable(change.requested for change in changes)),
        skipped=tuple(chain.from_iterable(change.skipped for change in changes)),
    )
