"""Names to choose from: kinds and queues."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.domain.jobs import JobState
from riverui.storage.postgres import array_literals
from riverui.storage.postgres.job_list.filters import contains_pattern, is_storable
from riverui.storage.postgres.statements import Statements

_MOST_KINDS = 5000
"""Distinct kinds that are looked through for those that fit."""
_MOST_QUEUES = 2000
"""Distinct queues of jobs that are looked through in each state."""


class NameStatements(Statements):
    """Distinct values in River's tables, each from a bounded part of them."""

    async def job_kind_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return distinct kinds by name: those behind `after` that contain `match` (any case), but
        not `exclude`.
        """
        if not is_storable(after):
            return []
        values = {
            "after": after,
            "exclude": _excluded(exclude),
            "limit": limit,
            "most": _MOST_KINDS,
            "pattern": contains_pattern(match),
        }
        return (await self.rows("job_kind_list", values)).values()

    async def queue_name_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return names of queues that contain `match` (any case), by name: of those with a row and
        those that only have jobs.
        """
        values = {
            "limit": limit,
            "most": _MOST_QUEUES,
            "pattern": contains_pattern(match),
            "states": [state.value for state in JobState],
        }
        used = (await self.rows("job_queue_name_list", values)).values()
        return sorted({*await self.queue_row_name_list(match=match, limit=limit), *used})[:limit]

    async def queue_row_name_list(
        self, *, match: str = "", after: str = "", exclude: Sequence[str] = (), limit: int = 100
    ) -> Sequence[str]:
        """Return names of queues that have a row, chosen as those of `job_kind_list`."""
        if not is_storable(after):
            return []
        values = {
            "after": after,
            "exclude": _excluded(exclude),
            "limit": limit,
            "pattern": contains_pattern(match),
        }
        return (await self.rows("queue_row_name_list", values)).values()


def _excluded(names: Sequence[str]) -> str:
    return array_literals.texts([name for name in names if is_storable(name)])
