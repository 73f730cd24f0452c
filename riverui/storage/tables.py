"""Optional tables: riverui's own, all made by one line of migrations, and River Pro's."""

from __future__ import annotations

import time
from collections.abc import Callable

from riverui.storage.interface import SQL, Executor

LINE = "riverui"
"""The line of migrations that makes the tables of riverui."""
REMEDY = f"riverui migrate-up --line {LINE}"
"""The command that makes the tables of riverui."""
MISSING = "the tables of riverui"
"""Names the missing tables in a sentence."""
OWN_TABLES = frozenset(
    f"riverui_{name}"
    for name in (
        "alert",
        "client",
        "dead_job",
        "error_group",
        "incident",
        "lease",
        "limit",
        "mark",
        "operation",
        "periodic_job",
        "producer",
        "rate",
        "rollup",
        "sequence",
        "sequence_job",
        "silence",
        "workflow",
        "workflow_edge",
        "workflow_signal",
        "workflow_task",
    )
)
"""All tables of riverui: its features are off while one of them is missing."""
_NOT_ON_SQLITE = frozenset(
    f"riverui_{name}"
    for name in (
        "workflow",
        "workflow_edge",
        "workflow_signal",
        "workflow_task",
    )
)
"""Those that a SQLite file does not have, as their features need Postgres."""
PRO_TABLES = frozenset(
    f"river_{name}"
    for name in (
        "job_sequence",
        "periodic_job",
        "producer",
        "workflow",
        "workflow_attempt",
        "workflow_attempt_task",
        "workflow_signal",
        "workflow_timer",
        "workflow_worklist",
    )
)
"""Tables by which River UI detects the features of River Pro."""
PRO_WORKFLOW_TABLES = frozenset(name for name in PRO_TABLES if name.startswith("river_workflow"))
"""Those that River Pro's workflows need, all of them."""
_CACHED_SECONDS = 60.0
"""Seconds for which the names are cached once all tables of riverui exist: the first statement
that fails shows that they were dropped.
"""


class KnownTables:
    """Cache of the names of the optional tables."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._names: frozenset[str] = frozenset()

    def names(self) -> frozenset[str] | None:
        """Return the cached names; None if the database has to be asked."""
        return self._names if self._clock() < self._until else None

    def keep(self, names: frozenset[str]) -> None:
        """Cache these names for a while, if all tables of riverui are among them."""
        self._names = names
        complete = names >= OWN_TABLES
        self._until = self._clock() + _CACHED_SECONDS if complete else float("-inf")

    def forget(self) -> None:
        """Clear the cache."""
        self._until = float("-inf")


async def table_names(executor: Executor) -> frozenset[str]:
    """Return the names of those optional tables that the database has."""
    return await executor.sql.tables()


async def complete(executor: Executor) -> bool:
    """Return whether the database has all tables that riverui makes in it."""
    wanted = OWN_TABLES if SQL in executor.capabilities else OWN_TABLES - _NOT_ON_SQLITE
    return await table_names(executor) >= wanted


def message(what: str) -> str:
    """Return the message for a database without the tables of riverui: `what` names who needs them
    and ends with the verb, such as `Sequences need`.
    """
    return f"{what} {MISSING}: run `{REMEDY}`."
