"""Indexes on River's tables, for the reindexer."""

from __future__ import annotations

from collections.abc import Sequence

from riverui.storage.postgres.statements import Statements


class Indexes(Statements):
    """Operations on indexes; not for use inside a transaction, but for the list."""

    async def index_list(self) -> Sequence[str]:
        """Return the names of the indexes on River's tables, artefacts of broken rebuilds
        included.
        """
        return (await self.rows("index_list", {"schema": self.schema})).values()

    async def index_reindex(self, name: str) -> None:
        """Run REINDEX INDEX CONCURRENTLY; not inside a transaction."""
        await self.run(f"reindex index concurrently {self._index(name)}")

    async def index_drop(self, name: str) -> None:
        """Run DROP INDEX CONCURRENTLY IF EXISTS; not inside a transaction."""
        await self.run(f"drop index concurrently if exists {self._index(name)}")

    def _index(self, name: str) -> str:
        parts = [name] if self.schema is None else [self.schema, name]
        return ".".join('"' + part.replace('"', '""') + '"' for part in parts)
