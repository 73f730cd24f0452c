"""Suggestions for the search box that have to be read from many jobs."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.errors import BadRequest
from riverui.storage.interface.sql_blocks import word
from riverui.storage.postgres.browse.filters import contains_pattern
from riverui.storage.store import Store

_FIELDS = frozenset({"args", "metadata"})


class SuggestionStore(Store):
    """Paths, tags and clients of the newest jobs."""

    async def job_path_list(
        self, field: str, *, match: str = "", limit: int = 100
    ) -> Sequence[str]:
        """Return dotted paths in `args` or `metadata` of the newest jobs, that contain `match`."""
        if field not in _FIELDS:
            raise BadRequest(f"“{field}” has no paths.")
        values = {"pattern": contains_pattern(match), "limit": limit}
        return (await self._sql.rows("job_path_list", values, column=word(field))).values()

    async def job_tag_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return tags of the newest jobs that contain `match`, by name."""
        values = {"pattern": contains_pattern(match), "limit": limit}
        return (await self._sql.rows("job_tag_list", values)).values()

    async def job_worker_list(self, *, match: str = "", limit: int = 100) -> Sequence[str]:
        """Return ids of clients of the newest jobs that contain `match`, by name."""
        values = {"pattern": contains_pattern(match), "limit": limit}
        return (await self._sql.rows("job_worker_list", values)).values()
