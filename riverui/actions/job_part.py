"""What takes part in the verbs on jobs wherever they are done: by a client, or by a dashboard that
knows none.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from riverui.storage.interface import OWN_TABLES, WORKFLOWS, Executor
from riverui.storage.interface.job_actions import JobChanges

Inner = Callable[[Sequence[int]], Awaitable[JobChanges]]
"""Goes on with the verb, on the same executor."""

JobPartCall = Callable[[Executor, Sequence[int], Inner], Awaitable[JobChanges]]
"""Does a verb to jobs, by way of `Inner` as a rule; each id is in one part of the answer."""

_BELIEVED_SECONDS = 10.0
"""How long an answer about the tables is believed: so soon a process notices that they were made or
removed, and bulk operations ask once for many batches.
"""


async def pass_on(executor: Executor, ids: Sequence[int], do_inner: Inner) -> JobChanges:
    """Do nothing besides."""
    return await do_inner(ids)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPart:
    """One thing that is to happen besides when jobs are retried, cancelled or deleted."""

    tables: frozenset[str]
    """It takes part where any of these tables is there, riverui's own or River Pro's."""
    retry: JobPartCall = pass_on
    cancel: JobPartCall = pass_on
    delete: JobPartCall = pass_on


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
