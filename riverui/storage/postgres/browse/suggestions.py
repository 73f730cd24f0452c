"""Names to choose from while searching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riverui.errors import BadRequest
from riverui.storage.postgres.job_list.filters import contains_pattern
from riverui.storage.postgres.statements import Statements

_MOST = 5000
"""Distinct kinds that a suggestion looks through."""

_FIELDS = frozenset({"args", "metadata"})


class JobSuggestions(Statements):
    """Distinct values in river_job, each from a bounded part of the table."""

    async def job_kind_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Distinct kinds whose name contains `match` (any case), by name."""
        return await self._names("job_kind_list", match, limit, {"most": _MOST})

    async def job_path_list(
        self, field: str, *, match: str = "", limit: int = 100
    ) -> Sequence[str]:
        """Dotted paths seen in `args` or `metadata` of the newest jobs, that contain `match`."""
        if field not in _FIELDS:
            raise BadRequest(f"There are no paths in “{field}”.")
        return await self._names("job_path_list", match, limit, column=field)

    async def job_tag_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Tags of the newest jobs that contain `match`, by name."""
        return await self._names("job_tag_list", match, limit)

    async def job_worker_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Client ids that work or lately worked jobs and contain `match`, by name."""
        return await self._names("job_worker_list", match, limit)

    async def _names(
        self,
        name: str,
        match: str,
        limit: int,
        more: Mapping[str, Any] | None = None,
        /,
        **clauses: str,
    ) -> Sequence[str]:
        parameters = {"patterns": [contains_pattern(match)], "limit": limit, **(more or {})}
        return [row[0] for row in await self._rows(name, parameters, **clauses)]
