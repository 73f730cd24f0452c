"""Indexes on River's tables, for the reindexer."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.storage.store import Store


class IndexStore(Store):
    """Operations on indexes; except for the list, not for use inside a transaction."""

    async def index_list(self) -> Sequence[str]:
        """Return names of the indexes on River's tables, artefacts of broken rebuilds included."""
        return (await self._sql.rows("index_list", {"schema": self._sql.schema})).values()

    async def index_reindex(self, name: str) -> None:
        """Rebuild an index while the tables are used; not inside a transaction."""
        await self._sql.run(f"reindex index concurrently {self._index(name)}")

    async def index_drop(self, name: str) -> None:
        """Drop an index, if it is there, while the tables are used; not inside a transaction."""
        await self._sql.run(f"drop index concurrently if exists {self._index(name)}")

    async def job_truncate(self) -> None:
        """Delete all rows of river_job at once: for benchmarks."""
        await self._sql.rows("job_truncate")

    def _index(self, name: str) -> str:
        parts = [name] if self._sql.schema is None else [self._sql.schema, name]
        return ".".join('"' + part.replace('"', '""') + '"' for part in parts)
